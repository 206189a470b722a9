/* The same step as consumer.cpp through the C ABI, from a program without C++. */
#include <stdio.h>

#include "megaflux/megaflux.h"

int main(void) {
  megaflux_error error = {sizeof(error), 0, ""};
  megaflux_planner_config config;
  megaflux_planner* planner = NULL;
  megaflux_plan* plan = NULL;
  const int32_t rows[] = {300, 60, 40, 300, 40, 50};
  const megaflux_step step = {.struct_bytes = sizeof(step), .rows = rows, .num_rows = 6};
  int64_t load[2] = {-1, -1};

  megaflux_planner_config_init(&config, sizeof(config), &error);
  config.num_experts = 3;
  config.num_ranks = 2;
  config.replica_slots = 1;
  megaflux_planner_create(&config, &planner, &error);
  megaflux_plan_create(&plan, &error);
  megaflux_planner_plan(planner, &step, plan, &error);
  megaflux_plan_copy_i64(plan, MEGAFLUX_LOAD_BLOCKS, load, 2, NULL, &error);
  megaflux_plan_destroy(plan);
  megaflux_planner_destroy(planner);

  printf("megaflux %s: loads %d and %d blocks %s\n", megaflux_version(), (int)load[0], (int)load[1],
         error.message);
  return error.status == MEGAFLUX_OK && load[0] == 4 && load[1] == 3 ? 0 : 1;
}
