// Counts of ids outside their tables, to be found by the session whose kernels count them.
//
// A kernel doesn't learn which session it belongs to. But ONNX Runtime asks the options' ops for their names, and makes
// the kernels, on the thread that makes the session. So each call of RegisterCustomOps gives its session options an op
// of their own, which no model has and which says, when it is asked, whose kernels are made next (register.cc); and it
// writes a tag into the options, where Python can read it back. (Whoever takes the making of a session apart, which
// only ONNX Runtime's own Python module can, or makes another one within it, gets counts of the session begun last.)
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace dpiframe {

// The counts of one kernel, wherever it keeps them.
class NodeBadIds {
 public:
  virtual ~NodeBadIds() = default;
  virtual const std::string& node() const = 0;
  virtual const std::vector<std::string>& labels() const = 0;  // of the lookups, as "ids[3] -> table"
  virtual std::vector<uint64_t> Counts() const = 0;            // one for each label
  virtual void ResetCounts() = 0;
};

// The kernels of the sessions of one tag.
class BadIdRegistry {
 public:
  void Add(NodeBadIds* node);
  void Remove(NodeBadIds* node);

  // A JSON list of {"node", "lookup", "count"}, without those that are 0.
  std::string Json() const;
  void Reset();

 private:
  mutable std::mutex mutex_;
  std::vector<NodeBadIds*> nodes_;
};

}  // namespace dpiframe
