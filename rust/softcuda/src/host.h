// CUDA C++ as host code. One block runs at a time, on the thread that launches it. The block's threads are fibres: each runs
// until it must wait for others (a barrier, a shuffle, a vote), and then another one runs, in an order that the seed decides.
//
// A fibre that never waits needs no stack of its own, so that the threads of a kernel without barriers are a loop.

#pragma once

#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/mman.h>

// The functions of <cmath> that kernels call. The header itself would double the time that a kernel compiles.
#define BOTH(name)                             \
    extern "C" double name(double) noexcept;   \
    extern "C" float name##f(float) noexcept;
#define BOTH_OF_TWO(name)                             \
    extern "C" double name(double, double) noexcept;  \
    extern "C" float name##f(float, float) noexcept;
BOTH(acos) BOTH(asin) BOTH(ceil) BOTH(cos) BOTH(cosh) BOTH(exp) BOTH(expm1) BOTH(fabs) BOTH(floor) BOTH(lgamma) BOTH(log) BOTH(log1p)
BOTH(rint) BOTH(sin) BOTH(sinh) BOTH(sqrt) BOTH(tan) BOTH(tanh) BOTH(trunc)
BOTH_OF_TWO(atan2) BOTH_OF_TWO(copysign) BOTH_OF_TWO(fmax) BOTH_OF_TWO(fmod) BOTH_OF_TWO(hypot) BOTH_OF_TWO(pow)
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
#undef BOTH
#undef BOTH_OF_TWO

struct dim3 {
    unsigned x, y, z;
};
struct uint3 {
    unsigned x, y, z;
};

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __shared__ static
#define __constant__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__ __restrict

namespace softcuda {

enum class State : uint8_t { fresh, ready, at_barrier, at_exchange, done };

/// Lanes of a warp that exchange values, named by their mask.
struct Group {
    uint32_t mask, arrived, turn;
    int line;
    uint64_t slots[2][32];
};

struct Fibre {
    void* stack_pointer;
    char* stack;
    uint3 index;
    unsigned flat;
    State state;
    Group* group;
    uint32_t turn;
    int line;
    /// The copies that are under way, and the batch that is not closed.
    unsigned copies, batch;
};

/// A copy to shared memory that a thread has begun: zeros, where nothing is read.
struct Copy {
    char* to;
    const char* from;
    uint32_t size, read;
    unsigned batch;
};

constexpr unsigned THREADS = 1024;
constexpr unsigned MASKS = 8;
constexpr size_t STACK = 64 << 10;
/// The most copies of a thread that are under way.
constexpr unsigned COPIES = 96;

struct Block {
    dim3 grid, size;
    uint3 index;
    Fibre fibres[THREADS];
    unsigned order[THREADS];
    char* stacks[THREADS + 1];
    Group groups[THREADS / 32][MASKS];
    unsigned masks[THREADS / 32];
    Copy copies[THREADS][COPIES];
    Fibre* now;
    void* home;
    unsigned count, alive, arrived, started, spare_stacks;
    void (*body)(void*);
    void* arguments;
    const char* fault;
    char text[256];
};

static Block block;
static uint64_t random_state;
static sigjmp_buf recovery;

// Saves the registers that a function must keep, and continues on another stack.
extern "C" void softcuda_switch(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.local softcuda_switch
softcuda_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi); movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
)");
static void* fresh_stack(char* top, void (*entry)()) {
    void** at = (void**)((uintptr_t)top & ~15ull);
    *--at = nullptr;
    *--at = (void*)entry;
    for (int i = 0; i < 6; i++) {
        *--at = nullptr;
    }
    return at;
}
#elif defined(__aarch64__)
asm(R"(
.text
.local softcuda_switch
softcuda_switch:
  sub sp, sp, #160
  stp x19, x20, [sp]; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]; stp x25, x26, [sp, #48]; stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]; stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]; stp d12, d13, [sp, #128]; stp d14, d15, [sp, #144]
  mov x9, sp; str x9, [x0]; mov sp, x1
  ldp x19, x20, [sp]; ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]; ldp x25, x26, [sp, #48]; ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]; ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]; ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
static void* fresh_stack(char* top, void (*entry)()) {
    char* at = (char*)((uintptr_t)top & ~15ull) - 160;
    memset(at, 0, 160);
    *(void**)(at + 88) = (void*)entry;
    return at;
}
#else
#error "softcuda switches stacks on x86-64 and AArch64 only"
#endif

/// The next thread that has not begun, in the order of the block.
__attribute__((noinline)) static Fibre* next_fresh() {
    while (block.started < block.count) {
        Fibre* fibre = &block.fibres[block.order[block.started++]];
        if (fibre->state == State::fresh) {
            return fibre;
        }
    }
    return nullptr;
}

/// Runs threads one after another on one stack, until one of them waits: then the stack is that thread's.
static void fibre_main() {
    for (;;) {
        block.body(block.arguments);
        Fibre* fibre = block.now;
        fibre->state = State::done;
        block.alive--;
        Fibre* next = next_fresh();
        if (next) {
            next->stack = fibre->stack;
            fibre->stack = nullptr;
            next->state = State::ready;
            block.now = next;
            continue;
        }
        softcuda_switch(&fibre->stack_pointer, block.home);
    }
}

__attribute__((noinline)) static void wait() { softcuda_switch(&block.now->stack_pointer, block.home); }

/// Ends the kernel with an error.
[[noreturn]] static void fail(const char* what, int line) {
    snprintf(block.text, sizeof block.text, "%s (block %u,%u,%u, thread %u, line %d)", what, block.index.x, block.index.y,
             block.index.z, block.now->flat, line);
    block.fault = block.text;
    siglongjmp(recovery, 1);
}

/// Where the compiler's own checks were compiled in: the beginning of what they pass.
struct Checked {
    const char* file;
    uint32_t line, column;
};

__attribute__((noinline)) static void barrier(int line) {
    Fibre* fibre = block.now;
    fibre->line = line;
    fibre->state = State::at_barrier;
    if (++block.arrived == block.count) {
        block.arrived = 0;
        for (unsigned i = 0; i < block.count; i++) {
            if (block.fibres[i].state == State::at_barrier) {
                block.fibres[i].state = State::ready;
            }
        }
        return;
    }
    wait();
}

/// Every lane of `mask` contributes a value; returns the values of all.
__attribute__((noinline)) static const uint64_t* exchange(uint32_t mask, uint64_t value, int line) {
    Fibre* fibre = block.now;
    const unsigned warp = fibre->flat >> 5, lane = fibre->flat & 31;
    if (!(mask >> lane & 1)) {
        fail("a lane is not in its own mask", line);
    }
    const unsigned left = block.count - warp * 32;
    const uint32_t present = left >= 32 ? ~0u : (1u << left) - 1;
    if (mask != ~0u && (mask & ~present)) {
        fail("the mask names lanes that do not exist", line);
    }
    mask &= present;
    Group* group = nullptr;
    for (unsigned i = 0; i < block.masks[warp]; i++) {
        if (block.groups[warp][i].mask == mask) {
            group = &block.groups[warp][i];
        }
    }
    if (!group) {
        if (block.masks[warp] == MASKS) {
            fail("too many different masks", line);
        }
        group = &block.groups[warp][block.masks[warp]++];
        memset(group, 0, sizeof *group);
        group->mask = mask;
    }
    if (group->arrived && group->line != line) {
        fail("lanes of one mask meet at different lines", line);
    }
    group->line = line;
    uint64_t* slots = group->slots[group->turn & 1];
    slots[lane] = value;
    group->arrived |= 1u << lane;
    if (group->arrived == mask) {
        group->arrived = 0;
        group->turn++;
        return slots;
    }
    fibre->group = group;
    fibre->turn = group->turn;
    fibre->line = line;
    fibre->state = State::at_exchange;
    wait();
    return slots;
}

/// The next of the random numbers that the seed decides; zero without a seed.
static uint64_t next_random() {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void carry_out(const Copy& copy) {
    memcpy(copy.to, copy.from, copy.read);
    memset(copy.to + copy.read, 0, copy.size - copy.read);
}

/// Begins a copy. The card may carry it out at any time until it is awaited; here it is at once, or as late as can be.
inline void begin_copy(void* to, const void* from, size_t size, size_t zeros, int line) {
    if ((size != 4 && size != 8 && size != 16) || zeros > size) {
        fail("a copy of this size", line);
    }
    if (((uintptr_t)to | (zeros < size ? (uintptr_t)from : 0)) % size) {
        fail("misaligned access of a copy", line);
    }
    Fibre& own = *block.now;
    const Copy copy{(char*)to, (const char*)from, uint32_t(size), uint32_t(size - zeros), own.batch};
    if (next_random() & 1) {
        return carry_out(copy);
    }
    if (own.copies == COPIES) {
        fail("too many copies under way", line);
    }
    block.copies[own.flat][own.copies++] = copy;
}

/// Carries out the copies of all batches but the last ones. Only the thread that waits knows that they are there.
inline void await_copies(unsigned batches_under_way) {
    Fibre& own = *block.now;
    Copy* const all = block.copies[own.flat];
    const unsigned begun = own.copies;
    own.copies = 0;
    for (unsigned i = 0; i < begun; i++) {
        if (all[i].batch + batches_under_way < own.batch) {
            carry_out(all[i]);
        } else {
            all[own.copies++] = all[i];
        }
    }
}

static void prepare_block() {
    block.alive = block.count;
    block.arrived = block.started = 0;
    block.fault = nullptr;
    memset(block.masks, 0, sizeof block.masks);
    for (unsigned i = 0; i < block.count; i++) {
        block.fibres[i] = Fibre{};
        block.fibres[i].flat = i;
        block.fibres[i].index = {i % block.size.x, i / block.size.x % block.size.y, i / (block.size.x * block.size.y)};
        block.order[i] = i;
    }
    for (unsigned i = block.count - 1; random_state && i; i--) {
        const unsigned j = next_random() % (i + 1), other = block.order[i];
        block.order[i] = block.order[j];
        block.order[j] = other;
    }
}

static char* take_stack() {
    if (block.spare_stacks) {
        return block.stacks[--block.spare_stacks];
    }
    void* stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) {
        abort();
    }
    return (char*)stack;
}

static void give_stack(Fibre& fibre) {
    if (fibre.stack) {
        block.stacks[block.spare_stacks++] = fibre.stack;
        fibre.stack = nullptr;
    }
}

static void run_block() {
    prepare_block();
    while (block.alive) {
        bool moved = false;
        for (unsigned k = 0; k < block.count; k++) {
            Fibre& fibre = block.fibres[block.order[k]];
            if (fibre.state == State::at_exchange && fibre.group->turn != fibre.turn) {
                fibre.state = State::ready;
            }
            if (fibre.state == State::fresh) {
                fibre.stack = take_stack();
                // Stacks begin at different places, or all of them would share one set of the cache.
                fibre.stack_pointer = fresh_stack(fibre.stack + STACK - k * 320 % 16384, fibre_main);
                fibre.state = State::ready;
            }
            if (fibre.state == State::ready) {
                moved = true;
                block.now = &fibre;
                softcuda_switch(&block.home, fibre.stack_pointer);
                // The stack may have passed to another thread.
                if (block.now->state == State::done) {
                    give_stack(*block.now);
                }
            }
        }
        if (!moved) {
            unsigned waiting = 0;
            int line = 0;
            for (unsigned i = 0; i < block.count; i++) {
                if (block.fibres[i].state != State::done) {
                    waiting++;
                    line = block.fibres[i].line;
                }
            }
            snprintf(block.text, sizeof block.text, "threads wait for ever: %u of %u (one at line %d) in block %u,%u,%u",
                     waiting, block.count, line, block.index.x, block.index.y, block.index.z);
            block.fault = block.text;
            return;
        }
    }
}

static void on_fault(int, siginfo_t* info, void*) {
    snprintf(block.text, sizeof block.text, "illegal access to %p (block %u,%u,%u, thread %u)", info->si_addr, block.index.x,
             block.index.y, block.index.z, block.now->flat);
    block.fault = block.text;
    siglongjmp(recovery, 1);
}

/// Runs all blocks of a grid; returns the text of an error, or null.
static const char* run_grid(void (*body)(void*), void* arguments, const unsigned* grid, const unsigned* size, uint64_t seed) {
    block.body = body;
    block.arguments = arguments;
    block.grid = {grid[0], grid[1], grid[2]};
    block.size = {size[0], size[1], size[2]};
    block.count = size[0] * size[1] * size[2];
    block.fault = nullptr;
    random_state = seed;
    struct sigaction catching = {}, segv, bus;
    catching.sa_sigaction = on_fault;
    catching.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &catching, &segv);
    sigaction(SIGBUS, &catching, &bus);
    if (sigsetjmp(recovery, 1) == 0) {
        const uint64_t blocks = uint64_t(grid[0]) * grid[1] * grid[2];
        for (uint64_t i = 0; i < blocks && !block.fault; i++) {
            block.index = {unsigned(i % grid[0]), unsigned(i / grid[0] % grid[1]), unsigned(i / grid[0] / grid[1])};
            run_block();
        }
    }
    sigaction(SIGSEGV, &segv, nullptr);
    sigaction(SIGBUS, &bus, nullptr);
    for (unsigned i = 0; i < block.count; i++) {
        give_stack(block.fibres[i]);
    }
    return block.fault;
}

template <size_t... I> struct Indices {};
template <size_t N, size_t... I> struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <size_t... I> struct MakeIndices<0, I...> {
    using type = Indices<I...>;
};
template <class... A> struct Call {
    void (*kernel)(A...);
    void** arguments;
};
template <class... A, size_t... I> void spread(Call<A...>* call, Indices<I...>) { call->kernel(*(A*)call->arguments[I]...); }
template <class... A> void call_kernel(void* call) {
    spread((Call<A...>*)call, typename MakeIndices<sizeof...(A)>::type{});
}

template <class... A>
const char* launch(void (*kernel)(A...), void** arguments, const unsigned* grid, const unsigned* size, uint64_t seed) {
    Call<A...> call{kernel, arguments};
    return run_grid(call_kernel<A...>, &call, grid, size, seed);
}

/// Writes the sizes of a kernel's arguments; returns their number.
template <class... A> unsigned argument_sizes(void (*)(A...), unsigned* sizes) {
    const unsigned all[] = {unsigned(sizeof(A))..., 0};
    for (unsigned i = 0; i < sizeof...(A); i++) {
        sizes[i] = all[i];
    }
    return sizeof...(A);
}

template <class T> uint64_t bits(T value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T> T value_of(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
inline unsigned lane() { return block.now->flat & 31; }
template <class T> T shuffle(uint32_t mask, T value, unsigned source, bool inside, int line) {
    const uint64_t* values = exchange(mask, bits(value), line);
    return inside ? value_of<T>(values[source & 31]) : value;
}

} // namespace softcuda

// The compiler calls these functions where an address has the wrong alignment for its type, or an index is outside of an array
// of known size, such as one in shared memory.
extern "C" __attribute__((visibility("hidden"), noinline, noreturn)) void __ubsan_handle_type_mismatch_v1_abort(
    softcuda::Checked* at, uintptr_t address) {
    char text[64];
    snprintf(text, sizeof text, "misaligned access to %#zx", (size_t)address);
    softcuda::fail(text, at->line);
}
extern "C" __attribute__((visibility("hidden"), noinline, noreturn)) void __ubsan_handle_out_of_bounds_abort(
    softcuda::Checked* at, uintptr_t index) {
    char text[64];
    snprintf(text, sizeof text, "illegal index %zd of an array", (ptrdiff_t)index);
    softcuda::fail(text, at->line);
}

// The card has a cycle for each nanosecond.
inline long long clock64() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// A condition is where its value is.
extern "C" inline void cudaGraphSetConditional(unsigned long long condition, unsigned int value) {
    *(unsigned*)condition = value;
}

#define threadIdx (softcuda::block.now->index)
#define blockIdx (softcuda::block.index)
#define blockDim (softcuda::block.size)
#define gridDim (softcuda::block.grid)
#define warpSize 32
#define __syncthreads() softcuda::barrier(__LINE__)
#define SOFTCUDA_LINE int line = __builtin_LINE()

inline void __syncwarp(uint32_t mask = ~0u, SOFTCUDA_LINE) { softcuda::exchange(mask, 0, line); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
template <class T> T __shfl_sync(uint32_t mask, T value, int source, int width = 32, SOFTCUDA_LINE) {
    return softcuda::shuffle(mask, value, (softcuda::lane() & ~(width - 1)) + (source & (width - 1)), true, line);
}
template <class T> T __shfl_xor_sync(uint32_t mask, T value, int flip, int width = 32, SOFTCUDA_LINE) {
    const unsigned lane = softcuda::lane(), source = lane ^ flip;
    return softcuda::shuffle(mask, value, source, (source & ~(width - 1)) <= (lane & ~(width - 1)), line);
}
template <class T> T __shfl_down_sync(uint32_t mask, T value, unsigned by, int width = 32, SOFTCUDA_LINE) {
    const unsigned lane = softcuda::lane();
    return softcuda::shuffle(mask, value, lane + by, (lane & (width - 1)) + by < (unsigned)width, line);
}
template <class T> T __shfl_up_sync(uint32_t mask, T value, unsigned by, int width = 32, SOFTCUDA_LINE) {
    const unsigned lane = softcuda::lane();
    return softcuda::shuffle(mask, value, lane - by, (lane & (width - 1)) >= by, line);
}
inline uint32_t __ballot_sync(uint32_t mask, int vote, SOFTCUDA_LINE) {
    const uint64_t* votes = softcuda::exchange(mask, vote != 0, line);
    uint32_t all = 0;
    for (int i = 0; i < 32; i++) {
        all |= (mask >> i & 1) ? uint32_t(votes[i] & 1) << i : 0;
    }
    return all;
}
inline int __any_sync(uint32_t mask, int vote, SOFTCUDA_LINE) { return __ballot_sync(mask, vote, line) != 0; }
inline int __all_sync(uint32_t mask, int vote, SOFTCUDA_LINE) { return __ballot_sync(mask, vote, line) == mask; }

// Copies to shared memory that run by themselves, by the names of <cuda_pipeline.h>.
inline void __pipeline_memcpy_async(void* to, const void* from, size_t size, size_t zeros = 0, SOFTCUDA_LINE) {
    softcuda::begin_copy(to, from, size, zeros, line);
}
inline void __pipeline_commit() { softcuda::block.now->batch++; }
inline void __pipeline_wait_prior(unsigned batches) { softcuda::await_copies(batches); }

[[noreturn]] inline void __assertfail(const char* what, const char*, unsigned line, const char*, size_t) {
    char text[128];
    snprintf(text, sizeof text, "assertion: %s", what);
    softcuda::fail(text, line);
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }

// One thread runs at a time and is interrupted only where it waits, so that plain arithmetic is atomic.
template <class T> T softcuda_replace(T* at, T value) {
    const T old = *at;
    *at = value;
    return old;
}
inline int atomicAdd(int* at, int value) { return softcuda_replace(at, int(unsigned(*at) + unsigned(value))); }
inline unsigned atomicAdd(unsigned* at, unsigned value) { return softcuda_replace(at, *at + value); }
inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long value) { return softcuda_replace(at, *at + value); }
inline float atomicAdd(float* at, float value) { return softcuda_replace(at, *at + value); }
inline double atomicAdd(double* at, double value) { return softcuda_replace(at, *at + value); }
template <class T> T atomicMax(T* at, T value) { return softcuda_replace(at, *at > value ? *at : value); }
template <class T> T atomicMin(T* at, T value) { return softcuda_replace(at, *at < value ? *at : value); }
template <class T> T atomicExch(T* at, T value) { return softcuda_replace(at, value); }
template <class T> T atomicCAS(T* at, T expected, T value) { return softcuda_replace(at, *at == expected ? value : *at); }
