/* A driver of one device that does nothing, and a compiler for it: memory is the host's, copies are made at once, and kernels are
 * neither compiled nor run. With it, the time of a call on a GPU is what rushlight itself spends. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int Status;
typedef void *Handle;

/* The attributes that rushlight asks for whose values decide something: compute capability 9.0 and an H200's multiprocessors. */
enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76 };

Status cuInit(unsigned flags) { return 0; }
Status cuDriverGetVersion(int *version) { *version = 13000; return 0; }
Status cuDeviceGetCount(int *count) { *count = 1; return 0; }
Status cuDeviceGet(int *device, int index) { *device = index; return 0; }
Status cuDeviceGetName(char *name, int size, int device) { strncpy(name, "idle", size); return 0; }
Status cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)1 << 33; return 0; }
Status cuDeviceGetUuid_v2(void *uuid, int device) { memset(uuid, 0, 16); return 0; }
Status cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == MULTIPROCESSORS ? 132 : attribute == MAJOR ? 9 : attribute == MINOR ? 0 : 1024;
    return 0;
}

static _Thread_local Handle current;
Status cuDevicePrimaryCtxRetain(Handle *context, int device) { *context = &current; return 0; }
Status cuCtxSetCurrent(Handle context) { current = context; return 0; }
Status cuCtxSynchronize(void) { return 0; }

Status cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    *address = (uint64_t)aligned_alloc(512, (bytes + 511) / 512 * 512);
    return *address ? 0 : 2;
}
Status cuMemFree_v2(uint64_t address) { free((void *)address); return 0; }
Status cuMemGetInfo_v2(size_t *available, size_t *all) { *available = *all = (size_t)1 << 33; return 0; }
Status cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, Handle stream) { memcpy((void *)to, from, bytes); return 0; }
Status cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, Handle stream) { memcpy(to, (void *)from, bytes); return 0; }
Status cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, Handle stream) { memcpy((void *)to, (void *)from, bytes); return 0; }

Status cuModuleLoadData(Handle *module, const void *image) { *module = &current; return 0; }
Status cuModuleGetFunction(Handle *function, Handle module, const char *name) { *function = &current; return 0; }
Status cuLaunchKernel(Handle function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y, unsigned threads_z,
                      unsigned shared, Handle stream, void **arguments, void **extra) {
    return 0;
}
Status cuStreamSynchronize(Handle stream) { return 0; }
Status cuGetErrorString(Status status, const char **text) { *text = "an error of the idle driver"; return 0; }

Status nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return 0; }
Status nvrtcCreateProgram(Handle *program, const char *text, const char *name, int count, const char *const *headers, const char *const *names) {
    *program = &current;
    return 0;
}
Status nvrtcCompileProgram(Handle program, int count, const char *const *options) { return 0; }
Status nvrtcGetCUBINSize(Handle program, size_t *bytes) { *bytes = 1; return 0; }
Status nvrtcGetCUBIN(Handle program, char *code) { *code = 0; return 0; }
Status nvrtcDestroyProgram(Handle *program) { *program = NULL; return 0; }
