#include "megaflux/moe/layer_shape.h"

#include "megaflux/base/check.h"

namespace megaflux {

void check_shape(const LayerShape& shape) {
  MF_CHECK(shape.num_experts >= 1 && shape.num_experts <= 4096, "num_experts: ", shape.num_experts,
           " is outside [1, 4096]");
  MF_CHECK(shape.topk >= 1 && shape.topk <= 64, "topk: ", shape.topk, " is outside [1, 64]");
  MF_CHECK(shape.hidden >= 1 && shape.hidden <= 65536, "hidden: ", shape.hidden,
           " is outside [1, 65536]");
  MF_CHECK(shape.inter >= 1 && shape.inter <= 65536, "inter: ", shape.inter,
           " is outside [1, 65536]");
  const Activation& act = shape.activation;
  if (act.kind == Activation::Kind::kClampedSwiGlu) {
    MF_CHECK(act.limit > 0, "activation limit: ", act.limit, " must be positive");
    MF_CHECK(act.alpha > 0, "activation alpha: ", act.alpha, " must be positive");
  }
}

}  // namespace megaflux
