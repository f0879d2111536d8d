#!/usr/bin/env python3
"""Writes rotary_angles.h: frequencies of rotary positions, computed per feature as in the papers' packages.

Heads of 16 features, base 10000, original length 64 positions; see rotary_test.cpp.
    python3 tests/nn/rotary_angles.py > tests/nn/rotary_angles.h
"""
from math import ceil, cos, floor, log, pi, sin, sqrt

N, BASE, ORIGINAL, FACTOR = 16, 10000.0, 64, 8.0


def plain(base=BASE):
    return [1.0 / base ** (i / N) for i in range(0, N, 2)]


def linear():
    return [f / FACTOR for f in plain()]


def ntk():
    return plain(BASE * FACTOR ** (N / (N - 2)))


def dynamic(length):
    length = max(length, ORIGINAL)
    return plain(BASE * ((FACTOR * length / ORIGINAL) - (FACTOR - 1)) ** (N / (N - 2)))


def yarn(beta_fast=32.0, beta_slow=1.0):
    def dimension(rotations):
        return N * log(ORIGINAL / (rotations * 2 * pi)) / (2 * log(BASE))

    low = max(floor(dimension(beta_fast)), 0)
    high = min(ceil(dimension(beta_slow)), N - 1)
    if low == high:
        high += 0.001
    result = []
    for i, extrapolated in enumerate(plain()):
        ramp = min(1, max(0, (i - low) / (high - low)))
        mask = 1 - ramp
        result.append(extrapolated / FACTOR * (1 - mask) + extrapolated * mask)
    return result


def llama3(low_factor=1.0, high_factor=4.0):
    low_wavelength, high_wavelength = ORIGINAL / low_factor, ORIGINAL / high_factor
    result = []
    for frequency in plain():
        wavelength = 2 * pi / frequency
        if wavelength < high_wavelength:
            result.append(frequency)
        elif wavelength > low_wavelength:
            result.append(frequency / FACTOR)
        else:
            smooth = (ORIGINAL / wavelength - low_factor) / (high_factor - low_factor)
            result.append((1 - smooth) * frequency / FACTOR + smooth * frequency)
    return result


def longrope(divisors):
    return [1.0 / (d * BASE ** (2 * i / N)) for i, d in enumerate(divisors)]


SHORT = [1 + 0.05 * i for i in range(N // 2)]
LONG = [1 + 0.75 * i for i in range(N // 2)]


def show(name, numbers):
    print(f"inline const std::vector<double> {name} = {{{', '.join(repr(x) for x in numbers)}}};")


print("// Written by rotary_angles.py.")
print("// clang-format off")
print("#pragma once\n\n#include <vector>\n\nnamespace longspan::testing::rotary {\n")
show("plain", plain())
show("linear", linear())
show("ntk", ntk())
show("dynamic_64", dynamic(64))
show("dynamic_100", dynamic(100))
show("dynamic_512", dynamic(512))
show("yarn", yarn())
show("yarn_of_narrow_betas", yarn(4.0, 0.25))
show("llama3", llama3())
show("llama3_of_other_bands", llama3(0.5, 8.0))
show("short_factors", SHORT)
show("long_factors", LONG)
show("longrope_short", longrope(SHORT))
show("longrope_long", longrope(LONG))
print(f"inline constexpr double yarn_factor = {0.1 * log(FACTOR) + 1!r};")
print(f"inline constexpr double longrope_factor = {sqrt(1 + log(FACTOR) / log(ORIGINAL))!r};")
print(f"inline constexpr double cosine = {cos(777 * yarn()[3])!r};  // yarn: pair 3, position 777")
print(f"inline constexpr double sine = {sin(777 * yarn()[3])!r};")
print("\n}  // namespace longspan::testing::rotary")
