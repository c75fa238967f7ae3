#include "bad_id_registry.h"

#include <algorithm>
#include <cstdio>

namespace dpiframe {
namespace {

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

void BadIdRegistry::Add(NodeBadIds* node) {
  const std::lock_guard<std::mutex> lock(mutex_);
  nodes_.push_back(node);
}

void BadIdRegistry::Remove(NodeBadIds* node) {
  const std::lock_guard<std::mutex> lock(mutex_);
  nodes_.erase(std::remove(nodes_.begin(), nodes_.end(), node), nodes_.end());
}

std::string BadIdRegistry::Json() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string json;
  for (const NodeBadIds* node : nodes_) {
    const std::vector<uint64_t> counts = node->Counts();
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      json += json.empty() ? "" : ", ";
      json += "{\"node\": " + Quoted(node->node()) + ", \"lookup\": " + Quoted(node->labels()[i]) +
              ", \"count\": " + std::to_string(counts[i]) + "}";
    }
  }
  return "[" + json + "]";
}

void BadIdRegistry::Reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (NodeBadIds* node : nodes_) node->ResetCounts();
}

}  // namespace dpiframe
