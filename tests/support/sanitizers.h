#pragma once

namespace longspan::testing {

// Whether this is a build with a sanitizer, which slows tests and changes memory and addresses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace longspan::testing
