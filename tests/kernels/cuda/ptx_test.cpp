// The interpreter of compiled kernels: instructions as defined in "PTX ISA", and detection of
// errors in kernels.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/ptx/counts.h"
#include "tests/support/ptx/kernels.h"
#include "tests/support/ptx/program.h"

namespace ptx {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

// A kernel with these statements. %rd0 is the address of a thread's 32 bytes of results, %r0 its
// index.
std::string kernel(const std::string& statements) {
  return R"(
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .b8 bytes[4] = {1, 2, 3, 255};
.extern .shared .align 1024 .b8 of_launch[];
.func (.param .b32 twice_result) twice(.param .b32 twice_number)
{
  .reg .b32 %r<2>;
  ld.param.u32 %r0, [twice_number];
  shl.b32 %r1, %r0, 1;
  st.param.b32 [twice_result], %r1;
  ret;
}
.visible .entry tested(.param .u64 results)
.maxntid 128, 1, 1
{
  .reg .pred %p<4>;
  .reg .b16 %h<8>;
  .reg .b32 %r<32>;
  .reg .f32 %f<32>;
  .reg .b64 %rd<16>;
  .reg .f64 %d<4>;
  .shared .align 16 .b8 own[512];
  ld.param.u64 %rd0, [results];
  mov.u32 %r0, %tid.x;
  mad.wide.u32 %rd0, %r0, 32, %rd0;
)" + statements +
         "\n  ret;\n}\n";
}

// The eight words that each of `threads` writes.
std::vector<std::uint32_t> run(Program& program, unsigned threads) {
  std::vector<std::uint32_t> results(8 * threads);
  const auto* const begin = results.data();
  const void* const argument = &begin;
  cudaLaunchConfig_t config;
  config.blockDim.x = threads;
  config.dynamicSmemBytes = 4096;
  run(config, program.function("tested"), {&argument, 1});
  return results;
}
std::vector<std::uint32_t> run(const std::string& statements, unsigned threads = 32) {
  Program program(kernel(statements));
  return run(program, threads);
}
std::uint32_t word(const std::string& statements) {
  return run(statements + "st.global.u32 [%rd0], %r1;")[0];
}
float real(const std::string& statements) {
  return std::bit_cast<float>(run(statements + "st.global.f32 [%rd0], %f1;")[0]);
}
std::string number(float x) {
  constexpr const char* digits = "0123456789ABCDEF";
  std::string text = "0f";
  for (int shift = 28; shift >= 0; shift -= 4)
    text += digits[std::bit_cast<std::uint32_t>(x) >> shift & 0xf];
  return text;
}

TEST(Ptx, IntegersWrapShiftAndDivideByType) {
  EXPECT_EQ(word("add.s32 %r1, 2147483647, 1;"), 0x80000000u);
  EXPECT_EQ(word("sub.s32 %r1, 1, 2;"), ~0u);
  EXPECT_EQ(word("mul.lo.s32 %r1, 65537, 65537;"), 131073u);
  EXPECT_EQ(word("mul.hi.s32 %r1, -2, 3;"), ~0u);
  EXPECT_EQ(word("mul.hi.u32 %r1, -2, 3;"), 2u);
  EXPECT_EQ(word("mad.lo.s32 %r1, -2, 3, 5;"), ~0u);
  EXPECT_EQ(word("mul.wide.s32 %rd1, -2, 3; shr.u64 %rd1, %rd1, 32; cvt.u32.u64 %r1, %rd1;"), ~0u);
  EXPECT_EQ(word("mul.wide.u16 %r1, 65535, 65535;"), 0xfffe0001u);
  EXPECT_EQ(word("div.s32 %r1, -7, 2;"), static_cast<std::uint32_t>(-3));
  EXPECT_EQ(word("rem.s32 %r1, -7, 2;"), ~0u);
  EXPECT_EQ(word("div.u32 %r1, -8, 2;"), 0x7ffffffcu);
  EXPECT_EQ(word("shl.b32 %r1, 3, 31;"), 0x80000000u);
  EXPECT_EQ(word("shl.b32 %r1, 3, 32;"), 0u);
  EXPECT_EQ(word("shr.s32 %r1, -8, 1;"), static_cast<std::uint32_t>(-4));
  EXPECT_EQ(word("shr.s32 %r1, -8, 99;"), ~0u);
  EXPECT_EQ(word("shr.u32 %r1, -8, 1;"), 0x7ffffffcu);
  EXPECT_EQ(word("max.s32 %r1, -1, 1;"), 1u);
  EXPECT_EQ(word("max.u32 %r1, -1, 1;"), ~0u);
  EXPECT_EQ(word("neg.s32 %r1, -2147483648;"), 0x80000000u);
  EXPECT_EQ(word("abs.s32 %r1, -5;"), 5u);
  EXPECT_EQ(word("copysign.f32 %f1, 0fbf800000, 0f40000000; mov.b32 %r1, %f1;"), 0xc0000000u);
  EXPECT_EQ(word("not.b32 %r1, 5;"), ~5u);
  EXPECT_EQ(word("add.cc.u32 %r2, -1, 1; addc.u32 %r1, 7, 0;"), 8u);
  EXPECT_EQ(word("sub.cc.u32 %r2, 0, 1; subc.u32 %r1, 7, 0;"), 6u);
  EXPECT_EQ(word("mad.lo.cc.u32 %r2, -1, -1, -1; madc.hi.u32 %r1, -1, -1, 0;"), ~0u);
}

TEST(Ptx, MovesAndCountsBits) {
  EXPECT_EQ(word("prmt.b32 %r1, 0x33221100, 0x77665544, 0x7054;"), 0x77005544u);
  EXPECT_EQ(word("prmt.b32 %r1, 0x00008000, 0, 0x9090;"), 0xff00ff00u);
  EXPECT_EQ(word("bfi.b32 %r1, 0xff, 0x11111111, 8, 4;"), 0x11111f11u);
  EXPECT_EQ(word("mov.u64 %rd1, 0xff; mov.u64 %rd2, 0; bfi.b64 %rd3, %rd1, %rd2, 32, 4; shr.u64 "
                 "%rd3, %rd3, 28; "
                 "cvt.u32.u64 %r1, %rd3;"),
            0xf0u);
  EXPECT_EQ(word("shf.l.wrap.b32 %r1, 0x80000000, 1, 33;"), 3u);
  EXPECT_EQ(word("clz.b32 %r1, 0xf;"), 28u);
  EXPECT_EQ(word("mov.b64 %rd1, {1, 2}; mov.b64 {_, %r1}, %rd1;"), 2u);
  EXPECT_EQ(word("mov.b32 %r1, {%h0, %h0}; mov.u16 %h1, 7; mov.b32 %r1, {%h0, %h1};"), 7u << 16);
}

TEST(Ptx, FloatsRoundCompareAndConvert) {
  const float above = std::nextafter(1.0f, 2.0f), tiny = 0x1p-40f;
  EXPECT_EQ(real("ex2.approx.f32 %f1, 0fc3020000;"), 0x1p-130f);
  EXPECT_EQ(real("rcp.approx.ftz.f32 %f1, 0f40000000;"), 0.5f);
  EXPECT_EQ(real("add.rz.f32 %f1, " + number(above) + ", " + number(-tiny) + ";"), 1.0f);
  EXPECT_EQ(real("add.f32 %f1, " + number(above) + ", " + number(-tiny) + ";"), above);
  EXPECT_EQ(real("fma.rm.f32 %f1, 0f3F800000, 0f3F800000, " + number(-tiny) + ";"),
            std::nextafter(1.0f, 0.0f));
  EXPECT_EQ(real("fma.rn.f32 %f1, " + number(above) + ", " + number(above) + ", 0fBF800000;"),
            std::fma(above, above, -1.0f));
  EXPECT_EQ(real("max.f32 %f1, 0f7FC00000, 0f40000000;"), 2.0f);
  EXPECT_EQ(real("cvt.sat.f32.f32 %f1, " + number(nan) + ";"), 0.0f);
  EXPECT_EQ(real("ex2.approx.ftz.f32 %f1, " + number(-infinity) + ";"), 0.0f);
  EXPECT_EQ(real("cvt.rn.f32.s32 %f1, -3;"), -3.0f);
  EXPECT_EQ(word("cvt.rzi.s32.f32 %r1, " + number(-2.7f) + ";"), static_cast<std::uint32_t>(-2));
  EXPECT_EQ(word("cvt.rni.s32.f32 %r1, " + number(2.5f) + ";"), 2u);
  EXPECT_EQ(word("cvt.rzi.s32.f32 %r1, " + number(1e20f) + ";"), 0x7fffffffu);
  EXPECT_EQ(word("cvt.rzi.s32.f32 %r1, " + number(nan) + ";"), 0u);
  EXPECT_EQ(word("cvt.f64.f32 %d1, " + number(nan) + "; cvt.rni.s32.f64 %r1, %d1;"), 0x80000000u);
  EXPECT_TRUE(std::isnan(real("cvt.rzi.f32.f32 %f1, " + number(nan) + ";")));
  EXPECT_EQ(word("mov.u32 %r2, 0x80; cvt.s32.s8 %r1, %r2;"), 0xffffff80u);
  EXPECT_EQ(word("cvt.rn.bf16x2.f32 %r1, 0f3F800000, 0f40000000;"), 0x3f804000u);
  EXPECT_EQ(word("cvt.rn.f16x2.f32 %r1, 0f3F800000, 0f40000000;"), 0x3c004000u);
}

TEST(Ptx, ComparisonsWithNanAreFalseUnlessUnordered) {
  const auto holds = [](const std::string& how, float a, float b) {
    return word("setp." + how + ".f32 %p1, " + number(a) + ", " + number(b) +
                "; selp.u32 %r1, 1, 0, %p1;") == 1;
  };
  for (const char* how : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    EXPECT_FALSE(holds(how, nan, 1)) << how;
    EXPECT_TRUE(holds(std::string(how) + "u", nan, 1)) << how;
  }
  EXPECT_TRUE(holds("lt", 1, 2) && holds("ltu", 1, 2) && !holds("ge", 1, 2) && !holds("geu", 1, 2));
  EXPECT_TRUE(holds("ne", 1, 2) && holds("neu", 1, 2) && !holds("eq", 1, 2) && !holds("equ", 1, 2));
  EXPECT_TRUE(holds("le", 2, 2) && !holds("gt", 2, 2) && !holds("gtu", 2, 2) && holds("leu", 2, 2));
  EXPECT_TRUE(holds("nan", nan, 1) && holds("nan", 1, nan) && !holds("nan", 1, 2));
  EXPECT_TRUE(holds("num", 1, 2) && !holds("num", nan, 1) && !holds("num", 1, nan));
}

TEST(Ptx, ExecutesBranchesPredicatesAndCalls) {
  EXPECT_EQ(word(R"(
    mov.u32 %r1, 0;
    mov.u32 %r2, 0;
  $again:
    add.s32 %r1, %r1, %r2;
    add.s32 %r2, %r2, 1;
    setp.lt.s32 %p1, %r2, 5;
    @%p1 bra $again;
    @!%p1 add.s32 %r1, %r1, 100;
    @%p1 add.s32 %r1, %r1, 1000;
  )"),
            110u);
  EXPECT_EQ(word(R"(
    { .reg .b32 %r1;  // another one
      .param .b32 given; .param .b32 taken;
      st.param.b32 [given], 21;
      call.uni (taken), twice, (given);
      ld.param.b32 %r1, [taken];
      mov.u32 %r2, %r1;
    }
    mov.u32 %r1, %r2;
  )"),
            42u);
}

TEST(Ptx, SupportsGlobalSharedAndLocalMemory) {
  EXPECT_EQ(word("mov.u64 %rd1, bytes; ld.global.s8 %r1, [%rd1+3];"), ~0u);
  EXPECT_EQ(word("mov.u64 %rd1, bytes; ld.global.u32 %r1, [%rd1];"), 0xff030201u);
  // Dynamic shared memory follows the kernel's static shared memory.
  EXPECT_EQ(word("mov.u32 %r1, of_launch;"), 1024u);
  EXPECT_EQ(
      word("mov.u32 %r2, own; st.shared.v2.u32 [%r2+8], {3, 4}; ld.shared.u32 %r1, [%r2+12];"), 4u);
  EXPECT_EQ(word("{ .local .align 4 .b8 mine[8]; mov.u64 %rd1, mine; st.local.u32 [%rd1+4], %r0; "
                 "bar.sync 0; ld.local.u32 %r1, [%rd1+4]; }"),
            0u);
}

TEST(Ptx, SupportsShufflesVotesAndBarriers) {
  const auto exchanged = run(R"(
    shfl.sync.bfly.b32 %r1, %r0, 5, 31, -1;
    shfl.sync.idx.b32 %r2|%p1, %r0, 9, 0x1807, -1;
    setp.gt.u32 %p2, %r0, 29;
    vote.sync.ballot.b32 %r3, %p2, -1;
    st.global.v4.u32 [%rd0], {%r1, %r2, %r3, 0};
  )");
  for (unsigned t = 0; t < 32; ++t) {
    EXPECT_EQ(exchanged[8 * t], t ^ 5);
    EXPECT_EQ(exchanged[8 * t + 1], t / 8 * 8 + 1);
    EXPECT_EQ(exchanged[8 * t + 2], 0xc0000000u);
  }
  // The first warp reads the writes of the second.
  const auto met = run(R"(
    mov.u32 %r2, own;
    mad.lo.s32 %r3, %r0, 4, %r2;
    st.shared.u32 [%r3], %r0;
    bar.sync 0;
    xor.b32 %r4, %r0, 32;
    mad.lo.s32 %r3, %r4, 4, %r2;
    ld.shared.u32 %r1, [%r3];
    st.global.u32 [%rd0], %r1;
  )",
                       64);
  for (unsigned t = 0; t < 64; ++t) EXPECT_EQ(met[8 * t], t ^ 32);
}

// a [16, 16] and the transposed b [8, 16] lie in shared memory by rows. All numbers are exact.
TEST(Ptx, LoadsAndMultipliesMatrices) {
  const auto sums = run(R"(
    mov.u32 %r2, own;
    mov.u32 %r9, of_launch;
    // Row r of a is [r, 0 .. 0, 1] in halves: each lane writes 16 bytes of it.
    shr.u32 %r3, %r0, 1;
    and.b32 %r4, %r0, 1;
    cvt.rn.f32.u32 %f0, %r3;
    setp.eq.s32 %p1, %r4, 0;
    selp.f32 %f1, %f0, 0f00000000, %p1;
    selp.f32 %f2, 0f00000000, 0f3F800000, %p1;
    cvt.rn.f16x2.f32 %r5, 0f00000000, %f1;
    cvt.rn.f16x2.f32 %r6, %f2, 0f00000000;
    mad.lo.s32 %r7, %r0, 16, %r2;
    st.shared.v4.u32 [%r7], {%r5, 0, 0, %r6};
    bar.warp.sync -1;
    // Matrices: rows 0 .. 7 and 8 .. 15 of the first eight columns, then of the others.
    and.b32 %r10, %r0, 15;
    shr.u32 %r11, %r0, 4;
    mad.lo.s32 %r12, %r10, 32, %r2;
    mad.lo.s32 %r12, %r11, 16, %r12;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r13, %r14, %r15, %r16}, [%r12];
    // b[0, c] = c and b[15, c] = 100: of lane 4 c + t the terms 2 t, 2 t + 1 and 8 further.
    shr.u32 %r17, %r0, 2;
    and.b32 %r18, %r0, 3;
    cvt.rn.f32.u32 %f3, %r17;
    cvt.rn.f16x2.f32 %r19, 0f00000000, %f3;
    setp.eq.s32 %p2, %r18, 0;
    selp.b32 %r19, %r19, 0, %p2;
    cvt.rn.f16x2.f32 %r20, 0f42C80000, 0f00000000;
    setp.eq.s32 %p3, %r18, 3;
    selp.b32 %r20, %r20, 0, %p3;
    mov.f32 %f4, 0f3F000000;
    mov.f32 %f5, 0f3F000000;
    mov.f32 %f6, 0f3F000000;
    mov.f32 %f7, 0f3F000000;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r13, %r14, %r15, %r16}, {%r19, %r20}, {%f4, %f5, %f6, %f7};
    st.global.v4.f32 [%rd0], {%f4, %f5, %f6, %f7};
  )");
  for (unsigned t = 0; t < 32; ++t)
    for (unsigned e = 0; e < 4; ++e) {
      const unsigned row = t / 4 + e / 2 * 8, column = t % 4 * 2 + e % 2;
      EXPECT_EQ(std::bit_cast<float>(sums[8 * t + e]), static_cast<float>(row * column) + 100.5f)
          << row << " " << column;
    }
}

// A product of 128 threads: row i of the left factor is [i, 0, ..] in registers, row n of the right
// one [n, 0, ..] in shared memory.
const std::string begin_product = R"(
    mov.u32 %r2, of_launch;
    mov.u32 %r3, own;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra $filled;
    mad.lo.s32 %r3, %r0, 128, %r2;
    st.shared.v4.u32 [%r3], {0, 0, 0, 0};
    st.shared.v4.u32 [%r3+16], {0, 0, 0, 0};
    st.shared.v4.u32 [%r3+32], {0, 0, 0, 0};
    st.shared.v4.u32 [%r3+48], {0, 0, 0, 0};
    st.shared.v4.u32 [%r3+64], {0, 0, 0, 0};
    st.shared.v4.u32 [%r3+80], {0, 0, 0, 0};
    st.shared.v4.u32 [%r3+96], {0, 0, 0, 0};
    st.shared.v4.u32 [%r3+112], {0, 0, 0, 0};
    and.b32 %r4, %r0, 7;
    mad.lo.s32 %r4, %r4, 16, %r3;
    cvt.rn.f32.u32 %f0, %r0;
    cvt.rn.bf16x2.f32 %r5, 0f00000000, %f0;
    st.shared.u32 [%r4], %r5;
  $filled:
    bar.sync 0;
    shr.u32 %r6, %r2, 4;
    cvt.u64.u32 %rd1, %r6;
    or.b64 %rd1, %rd1, 0x4000004000010000;
    and.b32 %r8, %r0, 31;
    shr.u32 %r8, %r8, 2;
    shr.u32 %r9, %r0, 5;
    mad.lo.s32 %r8, %r9, 16, %r8;
    cvt.rn.f32.u32 %f1, %r8;
    add.f32 %f2, %f1, 0f41000000;
    and.b32 %r10, %r0, 3;
    setp.eq.s32 %p2, %r10, 0;
    cvt.rn.bf16x2.f32 %r11, 0f00000000, %f1;
    cvt.rn.bf16x2.f32 %r12, 0f00000000, %f2;
    selp.b32 %r11, %r11, 0, %p2;
    selp.b32 %r12, %r12, 0, %p2;
    mov.f32 %f16, 0f3F000000; mov.f32 %f17, %f16; mov.f32 %f18, %f16; mov.f32 %f19, %f16;
    mov.f32 %f20, %f16; mov.f32 %f21, %f16; mov.f32 %f22, %f16; mov.f32 %f23, %f16;
    mov.f32 %f24, %f16; mov.f32 %f25, %f16; mov.f32 %f26, %f16; mov.f32 %f27, %f16;
    mov.f32 %f28, %f16; mov.f32 %f29, %f16; mov.f32 %f30, %f16; mov.f32 %f31, %f16;
)";
const std::string fence = "wgmma.fence.sync.aligned;", end = "wgmma.commit_group.sync.aligned;",
                  wait = "wgmma.wait_group.sync.aligned 0;";
const std::string multiply =
    "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
    "{%f16, %f17, %f18, %f19, %f20, %f21, %f22, %f23, %f24, %f25, %f26, %f27, %f28, %f29, %f30, "
    "%f31}, {%r11, %r12, 0, 0}, %rd1, 1, 1, 1, 0;";

TEST(Ptx, MultipliesWithWarpGroups) {
  const auto sums =
      run(begin_product + fence + multiply + multiply + end + "mov.f32 %f3, %f17;" + wait +
              "st.global.v4.f32 [%rd0], {%f16, %f3, %f18, %f19};"
              "st.global.v4.f32 [%rd0+16], {%f20, %f21, %f22, %f23};",
          128);
  for (unsigned t = 0; t < 128; ++t)
    for (unsigned e = 0; e < 8; ++e) {
      const unsigned row = t / 32 * 16 + t % 32 / 4 + e / 2 % 2 * 8;
      const unsigned column = e / 4 * 8 + t % 4 * 2 + e % 2;
      EXPECT_EQ(std::bit_cast<float>(sums[8 * t + e]), static_cast<float>(2 * row * column) + 0.5f)
          << row << " " << column;
    }
}

TEST(PtxDeathTest, ReportsMisuseOfWarpGroups) {
  const auto dies = [](const std::string& statements, const std::string& why) {
    EXPECT_DEATH(run(begin_product + statements, 128), why) << statements;
  };
  dies(multiply + end + wait, "a product of a warp group that did not begin");
  dies(fence + multiply + wait, "products of a warp group that did not end are waited for");
  dies(fence + multiply + end, "returns before what it began has come");
  dies(fence + multiply + end + "add.f32 %f1, %f16, %f16;" + wait,
       "a sum that a product still computes");
  dies(fence + multiply + end + "st.shared.u32 [%r3], 0x3f803f80;" + wait,
       "a factor of a warp group changed before its product was there");
  dies(
      "mov.u64 %rd2, bytes; and.b64 %rd2, %rd2, -16; mov.u32 %r13, own; "
      "cp.async.cg.shared.global [%r13], [%rd2], 16, 0; cp.async.commit_group; "
      "cp.async.wait_group 0;" +
          fence + multiply + end + wait,
      "a product of a warp group would not see what a copy brought");
}

TEST(Ptx, RejectsUnknownInstructionsAndNames) {
  const auto refusal = [](const std::string& statements) -> std::string {
    try {
      run(statements);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal("sin.approx.f32 %f1, %f2;"), "line 28: unknown instruction: sin.approx.f32");
  EXPECT_EQ(refusal("add.s32 %r1, %r2, unheard;"), "line 28: no such name: unheard");
  EXPECT_EQ(refusal("bra $nowhere;"), "line 28: no such label: $nowhere");
  EXPECT_EQ(refusal("add.s32 %r1, %r2, %clock;"), "line 28: no such name: %clock");
  EXPECT_EQ(refusal("bra $here ]; $here:"), "line 28: wanted ;: ]");
}

// Copies arrive after the wait, not before.
TEST(Ptx, CopiesArriveAfterWait) {
  const std::string begin =
      "mov.u32 %r2, own; mov.u64 %rd1, bytes; and.b64 %rd2, %rd1, -16; mad.lo.s32 %r3, %r0, 16, "
      "%r2;"
      "cp.async.cg.shared.global [%r3], [%rd2], 16, 0; cp.async.commit_group;";
  EXPECT_EQ(word(begin + "ld.shared.u32 %r1, [%r3]; cp.async.wait_group 0;"), ~0u);
  EXPECT_EQ(word(begin + "cp.async.wait_group 1; ld.shared.u32 %r1, [%r3]; cp.async.wait_group 0;"),
            ~0u);
  EXPECT_EQ(word(begin + "cp.async.wait_group 0; ld.shared.u32 %r1, [%r3];"), 0u);
}

// Issues of the last statement by the warps of 64 threads, and its shared-memory turns.
Count count(const std::string& statements) {
  Program program(kernel(statements));
  const Counting counting;
  run(program, 64);
  const std::vector<Instruction>& code = program.function("tested").code;
  return counting.kernels.at("tested").all().at(&code[code.size() - 2]);  // `ret` follows it
}

TEST(Ptx, CountsIssuesAndSharedMemoryTurns) {
  const auto turns = [](const std::string& step, const std::string& access) {
    return count("mov.u32 %r2, of_launch; and.b32 %r3, %r0, 31; mad.lo.s32 %r2, %r3, " + step +
                 ", %r2;" + access)
        .turns;
  };
  const std::string load = "ld.shared.u32 %r1, [%r2];";
  EXPECT_EQ(turns("0", load), 2u);  // one of each warp
  EXPECT_EQ(turns("4", load), 2u);
  EXPECT_EQ(turns("8", load), 4u);  // two words of each even bank
  EXPECT_EQ(turns("36", load), 2u);
  EXPECT_EQ(turns("128", load), 64u);
  EXPECT_EQ(turns("2", "ld.shared.u16 %h1, [%r2];"), 2u);
  EXPECT_EQ(turns("8", "st.shared.v2.u32 [%r2], {0, 0};"), 4u);  // half a warp requests 128 bytes
  EXPECT_EQ(turns("16", "st.shared.v4.u32 [%r2], {0, 0, 0, 0};"), 8u);
  EXPECT_EQ(turns("64", "st.shared.v4.u32 [%r2], {0, 0, 0, 0};"), 32u);
  EXPECT_EQ(turns("16", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r2];"),
            8u);
  EXPECT_EQ(turns("128", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r2];"),
            64u);

  EXPECT_EQ(count("add.s32 %r1, %r0, 1;").issued, 2u);
  EXPECT_EQ(count("mov.u32 %r1, 0; $again: add.s32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5;"
                  "@%p1 bra $again;")
                .issued,
            10u);
  EXPECT_EQ(count("setp.ne.s32 %p1, %r0, 0; @%p1 add.s32 %r1, %r0, 1;").issued, 2u);  // none active
}

TEST(Ptx, InstructionsHaveSourceLocations) {
  Program program(kernel(".loc 2 31 7, function_name $L__info_string0, inlined_at 1 2 3\n"
                         "add.s32 %r1, %r0, 1;\n.loc 1 5 1\n") +
                  ".file 1 \"/a/kernel.cu\", 1700000000, 123\n.file 2 \"/a/tile.h\"\n"
                  ".section .debug_str\n{\n$L__info_string0: .b8 95,90\n}\n");
  const std::vector<Instruction>& code = program.function("tested").code;
  EXPECT_EQ(code[code.size() - 2].source, "\"/a/tile.h\"");
  EXPECT_EQ(code[code.size() - 2].source_line, 31);
  EXPECT_EQ(code.back().source, "\"/a/kernel.cu\"");
  EXPECT_EQ(code.back().source_line, 5);
}

TEST(PtxDeathTest, ReportsErrorsInKernels) {
  const auto dies = [](const std::string& statements, const std::string& why) {
    EXPECT_DEATH(run(statements, 64), why) << statements;
  };
  dies("mov.u32 %r2, of_launch; st.shared.u32 [%r2+4096], 0;",
       "tested: line 28 of its PTX .st.shared.u32., thread 0 of block 0: beyond the block's shared "
       "memory");
  dies("mov.u32 %r2, own; st.shared.u32 [%r2+2], 0;", "shared memory that is not aligned");
  dies("mov.u64 %rd1, bytes; ld.global.u32 %r1, [%rd1+2];", "memory that is not aligned");
  dies(
      "setp.eq.s32 %p1, %r0, 0; @%p1 bra $other; shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; bra $end;"
      "$other: shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; $end:",
      "lanes of a warp meet at different places");
  dies("setp.eq.s32 %p1, %r0, 0; @%p1 bra $end; shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; $end:",
       "a warp exchanges with all of its lanes");
  dies("shfl.sync.idx.b32 %r1, %r0, 0, 31, 1;", "a warp exchanges with all of its lanes");
  dies("setp.lt.s32 %p1, %r0, 32; @%p1 bar.sync 0; @!%p1 bar.sync 1;", "a barrier of some threads");
  EXPECT_DEATH(run("", 160), "more threads than it is compiled for");
}

}  // namespace
}  // namespace ptx
