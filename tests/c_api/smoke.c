/* The example of megaflux.h as a C program sees it: no C++ anywhere. Returns 0, or the line that
 * failed. */
#include "c_api/smoke.h"

#include <string.h>

#include "megaflux/megaflux.h"

#define EXPECT(condition) \
  do {                    \
    if (!(condition)) {   \
      line = __LINE__;    \
      goto done;          \
    }                     \
  } while (0)

int megaflux_smoke(char* message, size_t message_bytes) {
  int line = 0;
  megaflux_planner* planner = NULL;
  megaflux_plan* plan = NULL;
  megaflux_plan* copy = NULL;
  megaflux_error error = {sizeof(error), 0, ""};
  megaflux_planner_config config;
  EXPECT(megaflux_planner_config_init(&config, sizeof(config), &error) == MEGAFLUX_OK);
  config.num_experts = 3;
  config.num_ranks = 2;
  config.replica_slots = 1;
  EXPECT(megaflux_planner_create(&config, &planner, &error) == MEGAFLUX_OK);
  EXPECT(megaflux_plan_create(&plan, &error) == MEGAFLUX_OK);
  EXPECT(megaflux_plan_create(&copy, &error) == MEGAFLUX_OK);

  const int32_t rows[] = {300, 60, 45, 300, 40, 45};
  megaflux_step step = {.struct_bytes = sizeof(step), .rows = rows, .num_rows = 6};
  EXPECT(megaflux_planner_plan(planner, &step, plan, &error) == MEGAFLUX_OK);

  int64_t load[2] = {-1, -1};
  size_t count = 0;
  EXPECT(megaflux_plan_copy_i64(plan, MEGAFLUX_LOAD_BLOCKS, load, 2, &count, &error) ==
         MEGAFLUX_OK);
  EXPECT(count == 2 && load[0] == 4 && load[1] == 3);

  const void* bytes = NULL;
  size_t num_bytes = 0;
  EXPECT(megaflux_plan_bytes(plan, &bytes, &num_bytes, &error) == MEGAFLUX_OK);
  EXPECT(num_bytes == 182 && memcmp(bytes, "MFPL", 4) == 0);
  EXPECT(megaflux_planner_adopt(planner, &step, bytes, num_bytes, copy, &error) == MEGAFLUX_OK);
  megaflux_plan_info info = {.struct_bytes = sizeof(info)};
  EXPECT(megaflux_plan_get_info(copy, &info, &error) == MEGAFLUX_OK);
  EXPECT(info.flags == 2 && info.num_copies == 1);

  EXPECT(megaflux_planner_adopt(planner, &step, bytes, num_bytes - 1, copy, &error) ==
         MEGAFLUX_BAD_INPUT);
  EXPECT(error.status == MEGAFLUX_BAD_INPUT && strstr(error.message, "181 bytes") != NULL);

done:
  megaflux_plan_destroy(copy);
  megaflux_plan_destroy(plan);
  megaflux_planner_destroy(planner);
  if (message_bytes > 0) {
    strncpy(message, error.message, message_bytes - 1);
    message[message_bytes - 1] = '\0';
  }
  return line;
}
