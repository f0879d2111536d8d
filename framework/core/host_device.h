// Marks functions that compile for both host and GPU.
#pragma once

#ifdef __CUDACC__
#define LONGSPAN_HOST_DEVICE __host__ __device__
#else
#define LONGSPAN_HOST_DEVICE
#endif
