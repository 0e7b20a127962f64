#include "kernels/device/cuda_graph.h"

#include <vector>

#include "compiler/support/status_macros.h"
#include "kernels/device/cuda_launch.h"

namespace preheat::cuda {
namespace {

class CudaGraph : public LaunchGraph {
 public:
  CudaGraph(const Driver& driver, Context context) : driver_(driver), context_(context) {}
  ~CudaGraph() override {
    const ContextScope scope(driver_, context_);
    if (exec_ != nullptr) driver_.GraphExecDestroy(exec_);
    if (graph_ != nullptr) driver_.GraphDestroy(graph_);
    if (side_ != nullptr) driver_.StreamDestroy(side_);
  }

  absl::Status Open() {
    const ContextScope scope(driver_, context_);
    RETURN_IF_ERROR(Check(driver_, driver_.StreamCreate(&side_, kNonBlocking), "making a stream"));
    return Check(driver_, driver_.GraphCreate(&graph_, 0), "making a graph");
  }

  absl::Status AddLaunch(const Launch& launch, Numbers after) override {
    const ContextScope scope(driver_, context_);
    PackedLaunch packed(launch);
    ASSIGN_OR_RETURN(const KernelNode* kernel, packed.Node(driver_));
    const std::vector<GraphNode> before = NodesOf(after);
    GraphNode node = nullptr;
    RETURN_IF_ERROR(Check(driver_, driver_.GraphAddKernelNode(&node, graph_, before.data(), before.size(), kernel),
                          "adding a kernel to a graph"));
    nodes_.push_back(node);
    return absl::OkStatus();
  }

  absl::Status AddCapture(Enqueue enqueue, Numbers after) override {
    const ContextScope scope(driver_, context_);
    ASSIGN_OR_RETURN(GraphHandle child, Capture(enqueue));
    const std::vector<GraphNode> before = NodesOf(after);
    GraphNode node = nullptr;
    const Result result = driver_.GraphAddChildGraphNode(&node, graph_, before.data(), before.size(), child);
    driver_.GraphDestroy(child);  // the node has a copy
    RETURN_IF_ERROR(Check(driver_, result, "adding a library call to a graph"));
    nodes_.push_back(node);
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    const ContextScope scope(driver_, context_);
    return Check(driver_, driver_.GraphInstantiate(&exec_, graph_, 0), "making a graph ready");
  }

  absl::Status SetLaunch(size_t number, const Launch& launch) override {
    const ContextScope scope(driver_, context_);
    PackedLaunch packed(launch);
    ASSIGN_OR_RETURN(const KernelNode* kernel, packed.Node(driver_));
    return Check(driver_, driver_.GraphExecKernelNodeSetParams(exec_, nodes_[number], kernel),
                 "changing a kernel of a graph");
  }

  absl::Status SetCapture(size_t number, Enqueue enqueue) override {
    const ContextScope scope(driver_, context_);
    ASSIGN_OR_RETURN(GraphHandle child, Capture(enqueue));
    const Result result = driver_.GraphExecChildGraphNodeSetParams(exec_, nodes_[number], child);
    driver_.GraphDestroy(child);
    return Check(driver_, result, "changing a library call of a graph");
  }

  absl::Status Start(Stream stream) override {
    const ContextScope scope(driver_, context_);
    return Check(driver_, driver_.GraphLaunch(exec_, stream), "starting a graph");
  }

 private:
  std::vector<GraphNode> NodesOf(Numbers numbers) const {
    std::vector<GraphNode> nodes;
    for (const size_t number : numbers) nodes.push_back(nodes_[number]);
    return nodes;
  }

  absl::StatusOr<GraphHandle> Capture(Enqueue enqueue) {
    RETURN_IF_ERROR(Check(driver_, driver_.StreamBeginCapture(side_, kCaptureRelaxed), "beginning a capture"));
    absl::Status status = enqueue(side_);
    GraphHandle child = nullptr;
    const Result result = driver_.StreamEndCapture(side_, &child);
    if (status.ok()) status = Check(driver_, result, "capturing a library call");
    if (status.ok()) return child;
    if (child != nullptr) driver_.GraphDestroy(child);
    return status;
  }

  const Driver& driver_;
  const Context context_;
  StreamHandle side_ = nullptr;
  GraphHandle graph_ = nullptr;
  GraphExec exec_ = nullptr;
  std::vector<GraphNode> nodes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchGraph>> NewLaunchGraph(const Driver& driver, Context context) {
  auto graph = std::make_unique<CudaGraph>(driver, context);
  RETURN_IF_ERROR(graph->Open());
  return std::unique_ptr<LaunchGraph>(std::move(graph));
}

}  // namespace preheat::cuda
