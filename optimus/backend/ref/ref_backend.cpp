#include "optimus/backend/ref/ref_backend.hpp"

#include "optimus/backend/ref/kernels.hpp"

namespace optimus {

std::unique_ptr<Backend> make_ref_backend() { return std::make_unique<ref::RefBackend>(); }

}  // namespace optimus
