#include "megaflux/moe/layer_shape.h"

#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"

namespace megaflux {

void check_shape(const LayerShape& shape) {
  MF_CHECK(shape.num_experts >= 1 && shape.num_experts <= kMaxExperts,
           "num_experts: ", shape.num_experts, " is outside [1, ", kMaxExperts, "]");
  MF_CHECK(shape.topk >= 1 && shape.topk <= kMaxTopk, "topk: ", shape.topk, " is outside [1, ",
           kMaxTopk, "]");
  MF_CHECK(shape.hidden >= 1 && shape.hidden <= kMaxHidden, "hidden: ", shape.hidden,
           " is outside [1, ", kMaxHidden, "]");
  MF_CHECK(shape.inter >= 1 && shape.inter <= kMaxInter, "inter: ", shape.inter, " is outside [1, ",
           kMaxInter, "]");
  const Activation& act = shape.activation;
  if (act.kind == Activation::Kind::kClampedSwiGlu) {
    MF_CHECK(act.limit > 0, "activation limit: ", act.limit, " must be positive");
    MF_CHECK(act.alpha > 0, "activation alpha: ", act.alpha, " must be positive");
  }
}

}  // namespace megaflux
