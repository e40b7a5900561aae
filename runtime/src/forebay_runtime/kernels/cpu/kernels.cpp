// The exported functions. The library is built once per instruction set, each a file of its own: functions of the
// standard library that a compiler puts into one of them then never serve another.
#include "decoder.h"
#include "pack.h"

using namespace forebay;

#define FB_EXPORT extern "C" __attribute__((visibility("default")))

FB_EXPORT void forebay_set_threads(int count) { set_threads(count); }

FB_EXPORT int64_t forebay_panel_bytes(int kind, int k) { return panel_bytes(kind, k); }

// `count` rows (k) of a block type, times `factor`, become rows [first, first + count) of packed weights: `data`, which is
// filled beforehand as pack_row says, and for kInt8 `scale`.
FB_EXPORT void forebay_pack(int kind, int k, int type, const uint8_t* rows, int first, int count, float factor, uint8_t* data, float* scale) {
  for (int i = 0; i < count; i++) {
    const int row = first + i;
    uint8_t* panel = data + row / kPanel * panel_bytes(kind, k);
    const float own = pack_row(kind, type, rows + i * row_bytes(type, k), k, factor, row % kPanel, panel);
    if (kind == kInt8) scale[row] = own;
  }
}

// `count` rows (k) of a block type as float.
FB_EXPORT void forebay_read_rows(int type, const uint8_t* rows, int count, int k, float* out) {
  for (int i = 0; i < count; i++) read_row(type, rows + i * row_bytes(type, k), k, out + int64_t(i) * k);
}

// Rows `ids` of the weights themselves (count, k).
FB_EXPORT void forebay_lookup(const Linear* w, const int32_t* ids, int count, float* out) {
  for (int i = 0; i < count; i++) unpacked_row(*w, ids[i], 1.0f, out + int64_t(i) * w->k);
}

namespace {

struct Product {
  const Linear& w;
  const float* x;
  int rows;
  Input input;
  Output output;
};

}  // namespace

// x (rows, k) -> out (rows, n)
FB_EXPORT void forebay_linear(const Linear* w, const float* x, int rows, float* out) {
  const int64_t stride = input_stride(w->k);
  const int64_t groups = groups_of(w->k);
  std::vector<float> values(rows * stride), scales(rows * groups), sums(rows * groups);
  std::vector<int8_t> quants(rows * stride);
  std::vector<int32_t> offsets(rows * groups);
  const Input input{values.data(), quants.data(), scales.data(), offsets.data(), sums.data(), stride, groups};
  const Product whole{*w, x, rows, input, {out, w->n, false}};
  const auto prepare_row = [](const void* context, int, int row) {
    const Product& p = *static_cast<const Product*>(context);
    prepare(p.w, p.x + int64_t(row) * p.w.k, p.input, row);
  };
  const auto multiply_panel = [](const void* context, int, int panel) {
    const Product& p = *static_cast<const Product*>(context);
    product(p.w, p.input, p.output, panel, 0, p.rows);
  };
  const Stage stages[] = {{prepare_row, &whole, 0, rows}, {multiply_panel, &whole, 0, panels(*w)}};
  run_stages(stages, 2);
}

FB_EXPORT void forebay_rms_norm(const float* x, const float* weight, int rows, int n, float eps, float* out) {
  for (int r = 0; r < rows; r++) rms_norm(x + int64_t(r) * n, weight, n, eps, out + int64_t(r) * n);
}

FB_EXPORT void forebay_gated(const float* gate_up, int rows, int n, int activation, float* out) {
  for (int r = 0; r < rows; r++) gated(gate_up + int64_t(r) * 2 * n, n, activation, out + int64_t(r) * n);
}

FB_EXPORT void* forebay_create(const Model* model) { return new Decoder(*model); }
FB_EXPORT void forebay_destroy(void* decoder) { delete static_cast<Decoder*>(decoder); }
FB_EXPORT void forebay_step(void* decoder, const Step* step) { static_cast<Decoder*>(decoder)->run(*step); }
