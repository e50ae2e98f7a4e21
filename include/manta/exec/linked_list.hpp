// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace manta::inline v0::exec {

/// A list of nodes that live elsewhere and have `Node* previous`, `Node* next` and `bool
/// is_listed`, in the order in which they came. Externally synchronised. Every operation is a few
/// stores.
template <class Node>
class linked_list {
 public:
  /// The oldest node, or null.
  Node* front() const noexcept { return first_; }
  /// Adds a node that is in no list.
  void push_back(Node* n) noexcept {
    n->previous = last_;
    n->next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = n;
    last_ = n;
    n->is_listed = true;
  }
  /// Takes out a node of this list.
  void remove(Node* n) noexcept {
    (n->previous == nullptr ? first_ : n->previous->next) = n->next;
    (n->next == nullptr ? last_ : n->next->previous) = n->previous;
    n->is_listed = false;
  }
  /// Takes out the oldest node; null when there is none.
  Node* pop_front() noexcept {
    Node* const n = first_;
    if (n != nullptr) remove(n);
    return n;
  }

 private:
  Node* first_ = nullptr;
  Node* last_ = nullptr;
};

}  // namespace manta::inline v0::exec
