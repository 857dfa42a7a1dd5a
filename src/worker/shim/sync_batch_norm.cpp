// Batch normalisation over the images of all ranks, as in torch.nn.SyncBatchNorm: one collective in each direction.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <vector>

#include "collectives.h"
#include "group.h"
#include "guard.h"

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const std::vector<int64_t> every_dimension_but_channels{0, 2, 3};

at::Tensor wide(const at::Tensor& tensor) { return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat); }

at::Tensor per_channel(const at::Tensor& tensor) { return tensor.view({1, -1, 1, 1}); }

struct SyncBatchNorm : torch::autograd::Function<SyncBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& scale,
                            const at::Tensor& shift, const at::Tensor& running_mean,
                            const at::Tensor& running_variance, double momentum, double epsilon, int64_t group_address) {
    auto& group = reinterpret_cast<Group*>(group_address)->group;
    auto values = wide(input);
    int64_t channels = input.size(1);
    int64_t own_count = input.numel() / channels;
    // Combines means and sums of squared differences (Chan et al. 1979), because the difference of sums of squares loses precision.
    auto own_mean = values.mean(every_dimension_but_channels);
    auto own_squares = (values - per_channel(own_mean)).square().sum(every_dimension_but_channels);
    auto own = at::cat({own_mean, own_squares, at::full({1}, own_count, own_mean.options())});
    std::vector<std::vector<at::Tensor>> gathered{{}};
    for (int rank = 0; rank < group->getSize(); rank++) gathered[0].push_back(at::empty_like(own));
    std::vector<at::Tensor> given{own};
    {
      WaitForRanks waits;
      group->allgather(gathered, given)->wait();
    }
    auto all = at::stack(gathered[0]);
    auto means = all.narrow(1, 0, channels);
    auto squares = all.narrow(1, channels, channels);
    auto counts = all.narrow(1, 2 * channels, 1);
    auto count = counts.sum();
    auto mean = (means * counts).sum(0) / count;
    auto sum_of_squares = (squares + counts * (means - mean).square()).sum(0);
    auto inverse_deviation = (sum_of_squares / count + epsilon).rsqrt();
    running_mean.mul_(1 - momentum).add_(mean, momentum);
    running_variance.mul_(1 - momentum).add_(sum_of_squares / (count - 1), momentum);

    context->save_for_backward({input, scale, mean, inverse_deviation, count});
    context->saved_data["group"] = group_address;
    auto normal = (values - per_channel(mean)) * per_channel(inverse_deviation);
    return (normal * per_channel(wide(scale)) + per_channel(wide(shift))).to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto saved = context->get_saved_variables();
    const auto &input = saved[0], &scale = saved[1], &mean = saved[2], &inverse_deviation = saved[3], &count = saved[4];
    auto& group = reinterpret_cast<Group*>(context->saved_data["group"].toInt())->group;
    auto gradient = wide(gradients[0]);
    auto normal = (wide(input) - per_channel(mean)) * per_channel(inverse_deviation);
    auto shift_gradient = gradient.sum(every_dimension_but_channels);
    auto scale_gradient = (gradient * normal).sum(every_dimension_but_channels);
    std::vector<at::Tensor> sums{at::cat({shift_gradient, scale_gradient})};
    {
      WaitForRanks waits;
      group->allreduce(sums)->wait();
    }
    auto mean_gradient = sums[0].narrow(0, 0, input.size(1)) / count;
    auto mean_product = sums[0].narrow(0, input.size(1), input.size(1)) / count;
    auto centred = gradient - per_channel(mean_gradient) - normal * per_channel(mean_product);
    auto input_gradient = centred * per_channel(wide(scale) * inverse_deviation);
    // The gradients of scale and shift are this rank's own; the reducer averages them with all other gradients.
    return {input_gradient.to(input.scalar_type()), scale_gradient.to(scale.scalar_type()),
            shift_gradient.to(scale.scalar_type()), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

SHIM_API at::Tensor* mc_sync_batch_norm(Group* group, at::Tensor* input, at::Tensor* scale, at::Tensor* shift,
                                        at::Tensor* running_mean, at::Tensor* running_variance, double momentum,
                                        double epsilon) {
  GUARD(nullptr, {
    return new at::Tensor(SyncBatchNorm::apply(*input, *scale, *shift, *running_mean, *running_variance, momentum, epsilon,
                                               reinterpret_cast<int64_t>(group)));
  })
}
