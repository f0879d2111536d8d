#pragma once

namespace longspan::testing {

// Built with a sanitizer, which takes most of the time and much memory, at addresses of its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace longspan::testing
