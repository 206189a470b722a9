/* megaflux for C, and for languages that call C: planning.
 *
 * Counts go in (rows[P][E]: rows that source rank p sends to expert e), a plan comes out: which
 * instance of which expert computes which blocks. Example, two ranks, three experts, one replica
 * slot a rank:
 *
 *   megaflux_error error = {sizeof(error), 0, ""};
 *   megaflux_planner_config config;
 *   megaflux_planner_config_init(&config, sizeof(config), &error);
 *   config.num_experts = 3; config.num_ranks = 2; config.replica_slots = 1;
 *   megaflux_planner* planner = NULL;
 *   megaflux_planner_create(&config, &planner, &error);
 *   megaflux_plan* plan = NULL;
 *   megaflux_plan_create(&plan, &error);
 *   const int32_t rows[] = {300, 60, 45, 300, 40, 45};
 *   megaflux_step step = {.struct_bytes = sizeof(step), .rows = rows, .num_rows = 6};
 *   if (megaflux_planner_plan(planner, &step, plan, &error) != MEGAFLUX_OK) puts(error.message);
 *   int64_t load[2];
 *   megaflux_plan_copy_i64(plan, MEGAFLUX_LOAD_BLOCKS, load, 2, NULL, &error);     load = {4, 3}
 *
 * Rules of every function:
 *  - No exception and no signal comes out of it; the status says what happened. Bad arguments, null
 *    pointers and structs of an unknown version among them, are MEGAFLUX_BAD_INPUT, and then
 *    nothing was changed.
 *  - `error` may be null; otherwise status and message are written to it on failure, and it is left
 *    alone on success.
 *  - A struct's first field, struct_bytes, is sizeof(struct) as the caller was compiled. It is the
 *    version: a library that has learned new fields still takes the old size. Arrays come as
 *    pointer and number of elements.
 *  - A handle is used by one thread at a time; different handles are independent. There is no
 *    global state.
 *  - Pointers passed in are read during the call only. */
#ifndef MEGAFLUX_MEGAFLUX_H
#define MEGAFLUX_MEGAFLUX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or a struct field is added; old ones stay. */
#define MEGAFLUX_ABI_VERSION 2

typedef enum megaflux_status {
  MEGAFLUX_OK = 0,
  MEGAFLUX_BAD_INPUT = 1,   /* an argument is wrong; nothing was changed */
  MEGAFLUX_UNSUPPORTED = 2, /* legal, but this build does not do it */
  MEGAFLUX_TIMEOUT = 3,     /* a bounded wait ran out */
  MEGAFLUX_DISAGREE = 4,    /* ranks entered the same epoch with different work */
  MEGAFLUX_INTERNAL = 5,    /* an invariant of the library is broken */
  MEGAFLUX_OUT_OF_MEMORY = 6,
  MEGAFLUX_NO_LEGAL_PLAN =
      7 /* experts with rows have an inactive owner: MEGAFLUX_ORPHANS lists them */
} megaflux_status;

typedef struct megaflux_error {
  uint32_t struct_bytes; /* sizeof(megaflux_error) */
  int32_t status;        /* megaflux_status */
  char message[504];     /* zero-terminated, cut if too long */
} megaflux_error;

/* MEGAFLUX_ABI_VERSION of the library that is running. */
uint32_t megaflux_abi_version(void);
/* "major.minor.patch", static. */
const char* megaflux_version(void);
/* A word for a status, static, never null. */
const char* megaflux_status_name(int32_t status);

/* ---- Configuration: everything but the counts that enters a decision ---- */

typedef enum megaflux_planner_kind {
  MEGAFLUX_PLANNER_MEGAFLUX = 0,
  MEGAFLUX_PLANNER_PAPER = 1,
  MEGAFLUX_PLANNER_QUOTA = 2,
  MEGAFLUX_PLANNER_FIXED = 3,
  /* Other systems' planners, to compare, with their authors' defaults. They decide by the step's
   * own loads. EPLB, LLEP, MOONEP and BROADCAST may need more slots than there are; the plan then
   * has as many as it needs (megaflux_plan_info.replica_slots). EPLB and LPLB move owners. */
  MEGAFLUX_PLANNER_ULTRAEP = 4,
  MEGAFLUX_PLANNER_EPLB = 5,
  MEGAFLUX_PLANNER_LPLB = 6,
  MEGAFLUX_PLANNER_LLEP = 7,
  MEGAFLUX_PLANNER_ECHO = 8,
  MEGAFLUX_PLANNER_MOONEP = 9,
  MEGAFLUX_PLANNER_BROADCAST = 10
} megaflux_planner_kind;

typedef enum megaflux_objective {
  MEGAFLUX_OBJECTIVE_FORWARD = 0,
  MEGAFLUX_OBJECTIVE_BACKWARD = 1,
  MEGAFLUX_OBJECTIVE_COST = 2
} megaflux_objective;

/* By name: "megaflux", "paper", "quota", "fixed"; "forward", "backward", "cost". */
megaflux_status megaflux_parse_planner(const char* name, int32_t* kind, megaflux_error* error);
megaflux_status megaflux_parse_objective(const char* name, int32_t* objective,
                                         megaflux_error* error);

/* What the cost model must know of a layer. */
typedef struct megaflux_layer_shape {
  uint32_t struct_bytes; /* sizeof(megaflux_layer_shape) */
  int32_t hidden;        /* H */
  int32_t inter;         /* I */
  int32_t element_bytes; /* of weights: 2 = bf16, 4 = fp32 */
  int32_t has_bias;      /* 0 or 1 */
} megaflux_layer_shape;

/* What a machine offers, in round integers; megaflux_machine_init fills in one that is built in. */
typedef struct megaflux_machine {
  uint32_t struct_bytes; /* sizeof(megaflux_machine) */
  uint32_t reserved;     /* 0 */
  int64_t gflops;
  int64_t link_mb_per_s; /* into a rank */
  int64_t plan_ns;
  int64_t pre_gate_ns;
  int64_t copy_latency_ns;
  int64_t round_ns;
  int64_t send_mb_per_s; /* since version 2: out of a rank that several pull from; 0 = the link's */
} megaflux_machine;

/* `name`: "h200". */
megaflux_status megaflux_machine_init(megaflux_machine* machine, size_t struct_bytes,
                                      const char* name, megaflux_error* error);

typedef struct megaflux_planner_config {
  uint32_t struct_bytes;        /* sizeof(megaflux_planner_config) */
  int32_t planner;              /* megaflux_planner_kind */
  int32_t objective;            /* megaflux_objective; cost needs `shape` */
  int32_t num_experts;          /* E, 1 ... 4096 */
  int32_t num_ranks;            /* P, 1 ... 1024 */
  int32_t replica_slots;        /* s, slots a rank */
  int32_t block_rows;           /* beta */
  int32_t lambda_blocks;        /* backward: blocks that one remote replica costs its owner */
  int32_t slack_ppm;            /* accepted max load over the bound, in millionths */
  int32_t min_copy_blocks;      /* least blocks of a fresh replica */
  int32_t min_rows_per_replica; /* least rows of any replica */
  int32_t covers_backward;  /* cost model: 0 = the plan serves forward, 1 = forward and backward */
  int64_t min_forward_rows; /* fewer rows in the step: fixed placement */
  int64_t pool_rows;        /* cost model: rows a rank's pool holds, 0 = unlimited */
  /* Tables; null = the default. num_x is the number of elements given. */
  const int32_t* owner_of; /* [E] owner of each expert; default contiguous */
  size_t num_owner_of;
  const int32_t* domain_of; /* [P] NVLink domain of each rank; default one domain */
  size_t num_domain_of;
  const uint8_t* active; /* [P] 0 or 1; default all active */
  size_t num_active;
  const int32_t* base_blocks; /* [P] blocks of other work; default none */
  size_t num_base_blocks;
  const uint16_t* speed; /* [P] 1024 = full; default all full */
  size_t num_speed;
  const megaflux_layer_shape* shape; /* null: no cost model, no predictions */
  const megaflux_machine* machine;   /* null: "h200"; read only with a shape */
} megaflux_planner_config;

/* Fills in the defaults; E, P and the tables are left zero. Call it with sizeof(*config). */
megaflux_status megaflux_planner_config_init(megaflux_planner_config* config, size_t struct_bytes,
                                             megaflux_error* error);

/* ---- Planner ---- */

typedef struct megaflux_planner megaflux_planner;
typedef struct megaflux_plan megaflux_plan;

/* One step's input. */
typedef struct megaflux_step {
  uint32_t struct_bytes;   /* sizeof(megaflux_step) */
  uint32_t reserved;       /* 0 */
  const int32_t* rows;     /* [P, E] row-major, rows of each source rank for each expert */
  size_t num_rows;         /* P * E */
  const int32_t* resident; /* [P, s] expert that each slot holds already, -1 = none; null = none */
  size_t num_resident;     /* P * s, or 0 */
} megaflux_step;

megaflux_status megaflux_planner_create(const megaflux_planner_config* config,
                                        megaflux_planner** planner, megaflux_error* error);
/* Null is allowed. */
void megaflux_planner_destroy(megaflux_planner* planner);
/* Hash of everything in the config that enters the decision: equal on ranks that will agree. */
megaflux_status megaflux_planner_hash(const megaflux_planner* planner, uint64_t* hash,
                                      megaflux_error* error);

/* Plans one step into `plan`, whose memory is reused: no allocation after the first steps. On
 * MEGAFLUX_NO_LEGAL_PLAN the handle holds the orphans and no plan; on any other failure it is
 * unchanged. */
megaflux_status megaflux_planner_plan(megaflux_planner* planner, const megaflux_step* step,
                                      megaflux_plan* plan, megaflux_error* error);
/* Takes a plan made elsewhere, if it is a plan, and legal for the step and the planner's config. */
megaflux_status megaflux_planner_adopt(megaflux_planner* planner, const megaflux_step* step,
                                       const void* bytes, size_t num_bytes, megaflux_plan* plan,
                                       megaflux_error* error);

/* ---- Plan ---- */

megaflux_status megaflux_plan_create(megaflux_plan** plan, megaflux_error* error);
/* Null is allowed. */
void megaflux_plan_destroy(megaflux_plan* plan);

typedef enum megaflux_gate {
  MEGAFLUX_GATE_NOT_ASKED =
      0, /* the objective has no gate, the planner never replicates, or an adopted plan */
  MEGAFLUX_GATE_REPLICATE = 1, /* replicas pay */
  MEGAFLUX_GATE_FIXED = 2, /* searched, and fixed placement was predicted to be at least as good */
  MEGAFLUX_GATE_PRE_GATE = 3, /* not even searched: no replica could have paid */
  MEGAFLUX_GATE_FEW_ROWS = 4  /* fewer rows than min_forward_rows */
} megaflux_gate;

typedef struct megaflux_plan_info {
  uint32_t struct_bytes; /* sizeof(megaflux_plan_info), set by the caller */
  uint32_t flags;        /* 1 = the gate refused replication, 2 = from outside */
  int32_t num_experts;
  int32_t num_ranks;
  int32_t replica_slots;
  int32_t block_rows;
  int32_t num_instances;
  int32_t num_copies;         /* replicas whose weights must move */
  int32_t max_blocks;         /* largest load of a rank */
  int32_t max_copies;         /* most instances of one expert, row length of logical_to_physical */
  int32_t search_id;          /* member of the portfolio that won; -1 = no search */
  int32_t gate;               /* megaflux_gate */
  int64_t tau;                /* lower bound of the finish time, in blocks */
  int64_t predicted_ns;       /* -1 without a cost model */
  int64_t predicted_fixed_ns; /* -1 without a cost model */
  uint64_t objective;
  uint64_t hash;
} megaflux_plan_info;

megaflux_status megaflux_plan_get_info(const megaflux_plan* plan, megaflux_plan_info* info,
                                       megaflux_error* error);

/* The plan's buffer, borrowed until the handle is planned into or destroyed: equal decisions are
 * equal bytes. */
megaflux_status megaflux_plan_bytes(const megaflux_plan* plan, const void** bytes,
                                    size_t* num_bytes, megaflux_error* error);

typedef struct megaflux_instance {
  int32_t expert;
  int32_t rank;
  int32_t slot; /* replica slot on `rank`; -1 = the owner's own expert */
  int32_t first_block;
  int32_t num_blocks;
  int32_t rows; /* rows inside these blocks */
} megaflux_instance;

/* The copy functions write *count (may be null) = elements there are, and copy them to `out` if it
 * is not null; `capacity` below the count is MEGAFLUX_BAD_INPUT, and then nothing is copied. */

/* Instances by (expert, rank). */
megaflux_status megaflux_plan_copy_instances(const megaflux_plan* plan, megaflux_instance* out,
                                             size_t capacity, size_t* count, megaflux_error* error);

typedef enum megaflux_array_i32 {
  MEGAFLUX_OWNER_OF = 0,      /* [E] */
  MEGAFLUX_SLOT_EXPERT = 1,   /* [P, s] expert in each slot, -1 = empty (DeepEP's [ranks, slots]) */
  MEGAFLUX_SLOT_RESIDENT = 2, /* [P, s] 1 = the slot holds the expert already */
  MEGAFLUX_EXPERTS_TO_COPY = 3, /* [P, s] as slot_expert, without what is resident (MoonEP) */
  MEGAFLUX_SOURCE_SLOTS = 4,    /* [P, s] physical id whose weights fill the slot (Megatron) */
  MEGAFLUX_RANK_BEGIN = 5,      /* [P + 1] first physical id of each rank */
  MEGAFLUX_PHYSICAL_TO_LOGICAL =
      6, /* [E + P s] owned experts of a rank, then its slots; -1 = empty */
  MEGAFLUX_LOGICAL_TO_PHYSICAL = 7,   /* [E, max_copies] owner first, -1 padded */
  MEGAFLUX_LOGICAL_REPLICA_COUNT = 8, /* [E] instances, the owner counted */
  MEGAFLUX_ORPHANS = 9 /* experts with rows and an inactive owner; also without a plan */
} megaflux_array_i32;

megaflux_status megaflux_plan_copy_i32(const megaflux_plan* plan, int32_t which, int32_t* out,
                                       size_t capacity, size_t* count, megaflux_error* error);

typedef enum megaflux_array_i64 {
  MEGAFLUX_LOAD_BLOCKS = 0, /* [P] blocks each rank computes */
  MEGAFLUX_LOAD_ROWS = 1,   /* [P] rows each rank computes */
  MEGAFLUX_PADDED_ROWS = 2, /* [P] rows in tiles of 128 */
  MEGAFLUX_FINISH = 3,      /* [P] blocks with other work and speed */
  MEGAFLUX_TRAFFIC_ROWS = 4 /* [P, P] rows of each source on each host */
} megaflux_array_i64;

megaflux_status megaflux_plan_copy_i64(const megaflux_plan* plan, int32_t which, int64_t* out,
                                       size_t capacity, size_t* count, megaflux_error* error);

#ifdef __cplusplus
}
#endif

#endif /* MEGAFLUX_MEGAFLUX_H */
