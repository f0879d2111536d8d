// Marks functions that run on the host and on a GPU alike.
#pragma once

#ifdef __CUDACC__
#define LONGSPAN_HOST_DEVICE __host__ __device__
#else
#define LONGSPAN_HOST_DEVICE
#endif
