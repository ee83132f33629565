// A library for `test_stable_libraries.py`, which uses the stable ABI of LibTorch. It declares the functions itself, because the
// tests have no headers of torch.

#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
using Value = uint64_t;
using Tensor = struct TensorOpaque*;
using Library = struct LibraryOpaque*;
using List = struct ListOpaque*;
using Text = struct TextOpaque*;
using Kernel = void (*)(Value*, uint64_t, uint64_t);

int aoti_torch_library_init_fragment(const char*, const char*, uint32_t, Library*);
int aoti_torch_library_init_impl(const char*, const char*, const char*, uint32_t, Library*);
int aoti_torch_library_def(Library, const char*);
int torch_library_impl(Library, const char*, Kernel, uint64_t);
int aoti_torch_delete_library_object(Library);
int torch_call_dispatcher(const char*, const char*, Value*, uint64_t);
int aoti_torch_aten_full(const int64_t*, int64_t, double, int32_t*, int32_t*, int32_t*, int32_t, int32_t*, Tensor*);
int aoti_torch_delete_tensor_object(Tensor);
int aoti_torch_get_data_ptr(Tensor, void**);
int torch_get_const_data_ptr(Tensor, const void**);
int aoti_torch_get_dim(Tensor, int64_t*);
int aoti_torch_get_numel(Tensor, int64_t*);
int aoti_torch_get_sizes(Tensor, int64_t**);
int aoti_torch_get_size(Tensor, int64_t, int64_t*);
int aoti_torch_get_strides(Tensor, int64_t**);
int aoti_torch_get_dtype(Tensor, int32_t*);
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_dtype_float64();
int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_layout_strided();
int torch_list_size(List, size_t*);
int torch_list_get_item(List, size_t, Value*);
int torch_list_push_back(List, Value);
int torch_new_list_reserve_size(size_t, List*);
int torch_delete_list(List);
int torch_new_string_handle(const char*, size_t, Text*);
int torch_string_length(Text, size_t*);
int torch_string_c_str(Text, const char**);
int torch_delete_string(Text);
int torch_parallel_for(int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void*), void*);
int torch_get_thread_idx(uint32_t*);
int torch_get_num_threads(uint32_t*);
int torch_from_blob(void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t, Tensor*, int32_t,
                    const uint8_t*, int64_t, void (*)(void*, void*), void*);
const char* torch_exception_get_what();
uint64_t aoti_torch_abi_version();
}

namespace {

void check(int code) {
    if (code != 0) throw std::runtime_error(std::string("the call failed: ") + torch_exception_get_what());
}

Value of(Tensor tensor) { return reinterpret_cast<Value>(tensor); }
Tensor tensor_of(Value value) { return reinterpret_cast<Tensor>(value); }

// add_one(Tensor x) -> Tensor: the elements of a matrix, by its strides.
void add_one(Value* stack, uint64_t, uint64_t) {
    Tensor x = tensor_of(stack[0]);
    int32_t dtype;
    check(aoti_torch_get_dtype(x, &dtype));
    if (dtype != aoti_torch_dtype_float32()) {
        aoti_torch_delete_tensor_object(x);
        throw std::invalid_argument("add_one takes float32");
    }
    int64_t dim, *sizes, *strides;
    check(aoti_torch_get_dim(x, &dim));
    check(aoti_torch_get_sizes(x, &sizes));
    check(aoti_torch_get_strides(x, &strides));
    Tensor result;
    check(aoti_torch_aten_full(sizes, dim, 1.0, &dtype, nullptr, nullptr, 0, nullptr, &result));
    const void* from;
    void* to;
    check(torch_get_const_data_ptr(x, &from));
    check(aoti_torch_get_data_ptr(result, &to));
    for (int64_t row = 0; row < sizes[0]; row++)
        for (int64_t column = 0; column < sizes[1]; column++)
            static_cast<float*>(to)[row * sizes[1] + column] +=
                static_cast<const float*>(from)[row * strides[0] + column * strides[1]];
    check(aoti_torch_delete_tensor_object(x));
    stack[0] = of(result);
}

// echo(...) returns its arguments.
void echo(Value*, uint64_t, uint64_t) {}

// double_(Tensor(a!) x) -> (): changes a contiguous tensor.
void double_(Value* stack, uint64_t, uint64_t) {
    Tensor x = tensor_of(stack[0]);
    int64_t count;
    void* data;
    check(aoti_torch_get_numel(x, &count));
    check(aoti_torch_get_data_ptr(x, &data));
    for (int64_t place = 0; place < count; place++) static_cast<float*>(data)[place] *= 2;
    check(aoti_torch_delete_tensor_object(x));
}

struct NoException {};

// fail(int kind) -> ()
void fail(Value* stack, uint64_t, uint64_t) {
    switch (static_cast<int64_t>(stack[0])) {
        case 0: throw std::runtime_error("runtime");
        case 1: throw std::invalid_argument("argument");
        case 2: throw std::out_of_range("range");
        case 3: throw std::overflow_error("overflow");
        case 4: throw std::bad_alloc();
        case 5: throw 5;
        case 6: throw NoException();
    }
}

// total(Tensor x) -> (float, int): the sum by all threads, and the number of threads that a loop may have.
struct Sums {
    const double* data;
    std::vector<double> of_thread;
    bool fails;
};

void add_range(int64_t begin, int64_t end, void* context) {
    auto sums = static_cast<Sums*>(context);
    if (sums->fails) throw std::out_of_range("in a loop");
    uint32_t thread;
    check(torch_get_thread_idx(&thread));
    for (int64_t place = begin; place < end; place++) sums->of_thread.at(thread) += sums->data[place];
}

void total(Value* stack, uint64_t, uint64_t) {
    Tensor x = tensor_of(stack[0]);
    int64_t count;
    const void* data;
    uint32_t threads;
    check(aoti_torch_get_numel(x, &count));
    check(torch_get_const_data_ptr(x, &data));
    check(torch_get_num_threads(&threads));
    Sums sums{static_cast<const double*>(data), std::vector<double>(threads), count == 1};
    int code = torch_parallel_for(0, count, 100, add_range, &sums);
    check(aoti_torch_delete_tensor_object(x));
    check(code);
    double sum = 0;
    for (double one : sums.of_thread) sum += one;
    std::memcpy(&stack[0], &sum, sizeof sum);
    stack[1] = threads;
}

// call(str name, str overload, Tensor x, Tensor y) -> Tensor: an operator of two tensors.
void call(Value* stack, uint64_t, uint64_t) {
    std::string names[2];
    for (int place = 0; place < 2; place++) {
        Text text = reinterpret_cast<Text>(stack[place]);
        const char* data;
        size_t length;
        check(torch_string_c_str(text, &data));
        check(torch_string_length(text, &length));
        names[place] = std::string(data, length);
        check(torch_delete_string(text));
    }
    Value inner[4] = {stack[2], stack[3], 0, 0};
    check(torch_call_dispatcher(names[0].c_str(), names[1].c_str(), inner, aoti_torch_abi_version()));
    stack[0] = inner[0];
}

// reversed(int[] values) -> int[]
void reversed(Value* stack, uint64_t, uint64_t) {
    List given = reinterpret_cast<List>(stack[0]), made;
    size_t count;
    check(torch_list_size(given, &count));
    check(torch_new_list_reserve_size(count, &made));
    for (size_t place = count; place-- > 0;) {
        Value value;
        check(torch_list_get_item(given, place, &value));
        check(torch_list_push_back(made, value));
    }
    check(torch_delete_list(given));
    stack[0] = reinterpret_cast<Value>(made);
}

// counting(int count) -> Tensor: 0, 1, ... in memory of the library. freed() -> int: how often such memory was freed.
int64_t freed_memory = 0;

void counting(Value* stack, uint64_t, uint64_t) {
    int64_t count = static_cast<int64_t>(stack[0]), stride = 1;
    auto data = new double[count];
    for (int64_t place = 0; place < count; place++) data[place] = static_cast<double>(place);
    auto deleter = [](void* data, void* context) {
        delete[] static_cast<double*>(data);
        ++*static_cast<int64_t*>(context);
    };
    Tensor result;
    check(torch_from_blob(data, 1, &count, &stride, 0, aoti_torch_dtype_float64(), aoti_torch_device_type_cpu(), -1, &result,
                          aoti_torch_layout_strided(), nullptr, 0, deleter, &freed_memory));
    stack[0] = of(result);
}

void freed(Value* stack, uint64_t, uint64_t) { stack[0] = static_cast<Value>(freed_memory); }

// squared(Tensor x) -> Tensor: made of operators, so that it is recorded.
void squared(Value* stack, uint64_t, uint64_t) {
    Value exponent;
    double two = 2;
    std::memcpy(&exponent, &two, sizeof two);
    Value power[2] = {stack[0], exponent};
    check(torch_call_dispatcher("aten::pow", "Tensor_Scalar", power, aoti_torch_abi_version()));
    stack[0] = power[0];
}

struct Registrations {
    Library definitions, kernels, composites;
    Registrations() {
        check(aoti_torch_library_init_impl("tests_compiled", "CPU", __FILE__, __LINE__, &kernels));
        check(torch_library_impl(kernels, "add_one", add_one, 0));
        check(torch_library_impl(kernels, "double_", double_, 0));
        check(torch_library_impl(kernels, "total", total, 0));
        check(aoti_torch_library_init_impl("tests_compiled", "CompositeExplicitAutograd", __FILE__, __LINE__, &composites));
        check(torch_library_impl(composites, "echo", echo, 0));
        check(torch_library_impl(composites, "fail", fail, 0));
        check(torch_library_impl(composites, "call", call, 0));
        check(torch_library_impl(composites, "reversed", reversed, 0));
        check(torch_library_impl(composites, "counting", counting, 0));
        check(torch_library_impl(composites, "freed", freed, 0));
        check(aoti_torch_delete_library_object(composites));
        check(aoti_torch_library_init_impl("tests_compiled", "CompositeImplicitAutograd", __FILE__, __LINE__, &composites));
        check(torch_library_impl(composites, "squared", squared, 0));
        check(aoti_torch_library_init_fragment("tests_compiled", __FILE__, __LINE__, &definitions));
        for (auto schema : {
                 "add_one(Tensor x) -> Tensor",
                 "double_(Tensor(a!) x) -> ()",
                 "total(Tensor x) -> (float, int)",
                 "fail(int kind) -> ()",
                 "call(str name, str overload, Tensor x, Tensor y) -> Tensor",
                 "reversed(int[] values) -> int[]",
                 "counting(int count) -> Tensor",
                 "freed() -> int",
                 "squared(Tensor x) -> Tensor",
                 "echo(Tensor a, Tensor? b, Tensor[] c, Tensor?[] d, int e, int? f, int[2] g, float h, float? i, bool j, str k, str? l, "
                 "ScalarType m, Layout? n, MemoryFormat o, Device p, float[]? q, Generator? r) -> (Tensor, Tensor?, Tensor[], Tensor?[], "
                 "int, int?, int[], float, float?, bool, str, str?, ScalarType, Layout?, MemoryFormat, Device, float[]?, Generator?)",
             })
            check(aoti_torch_library_def(definitions, schema));
    }
    ~Registrations() {
        aoti_torch_delete_library_object(definitions);
        aoti_torch_delete_library_object(kernels);
        aoti_torch_delete_library_object(composites);
    }
} registrations;

}  // namespace
