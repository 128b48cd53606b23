//! Loops over bitsets, compiled for the instruction sets that matter and chosen at run time.
//!
//! Each kernel is plain Rust that the compiler vectorises; `dispatch!` compiles it three times (portable, AVX2 with
//! POPCNT, AVX-512 with VPOPCNTDQ) and picks by what the processor has. All three give the same answers: the tests
//! run every version the machine has. Words of a mapped bitset are read as little-endian bytes, at any alignment.
#![expect(unsafe_code, reason = "calling a function compiled for features that were just detected")]

macro_rules! dispatch {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $body:ident) => {
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name($($arg: $ty),*) -> $out {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
                fn wide($($arg: $ty),*) -> $out {
                    $body($($arg),*)
                }
                #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
                fn narrow($($arg: $ty),*) -> $out {
                    $body($($arg),*)
                }
                if is_x86_feature_detected!("avx512vpopcntdq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                {
                    // SAFETY: a processor with these has all features that `wide` names.
                    return unsafe { wide($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
                    // SAFETY: a processor with AVX2 and BMI2 has all features that `narrow` names.
                    return unsafe { narrow($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}

/// The words of a mapped bitset; a rest of less than 8 bytes is left out.
#[inline(always)]
fn words(bytes: &[u8]) -> &[[u8; 8]] {
    bytes.as_chunks().0
}

dispatch! {
    /// Number of set bits.
    count(bits: &[u64]) -> u64 = count_body
}
dispatch! {
    /// Number of bits set in both.
    count_and(bits: &[u64], with: &[u8]) -> u64 = count_and_body
}
dispatch! {
    /// `bits |= with`
    or_bytes(bits: &mut [u64], with: &[u8]) -> () = or_bytes_body
}
dispatch! {
    /// `bits &= with`; words that `with` lacks become 0.
    and_bytes(bits: &mut [u64], with: &[u8]) -> () = and_bytes_body
}
dispatch! {
    /// `bits &= !with`
    and_not_bytes(bits: &mut [u64], with: &[u8]) -> () = and_not_bytes_body
}
dispatch! {
    /// `bits |= with`
    or(bits: &mut [u64], with: &[u64]) -> () = or_body
}
dispatch! {
    /// `bits &= with`
    and(bits: &mut [u64], with: &[u64]) -> () = and_body
}
dispatch! {
    /// `bits &= !with`
    and_not(bits: &mut [u64], with: &[u64]) -> () = and_not_body
}

// The bodies are loops without closures: a closure would be compiled on its own, without the features.

#[inline(always)]
fn count_body(bits: &[u64]) -> u64 {
    let mut sum = 0;
    for word in bits {
        sum += u64::from(word.count_ones());
    }
    sum
}

#[inline(always)]
fn count_and_body(bits: &[u64], with: &[u8]) -> u64 {
    let mut sum = 0;
    for (a, b) in bits.iter().zip(words(with)) {
        sum += u64::from((a & u64::from_le_bytes(*b)).count_ones());
    }
    sum
}

#[inline(always)]
fn or_bytes_body(bits: &mut [u64], with: &[u8]) {
    for (a, b) in bits.iter_mut().zip(words(with)) {
        *a |= u64::from_le_bytes(*b);
    }
}

#[inline(always)]
fn and_bytes_body(bits: &mut [u64], with: &[u8]) {
    let n = (with.len() / 8).min(bits.len());
    for (a, b) in bits.iter_mut().zip(words(with)) {
        *a &= u64::from_le_bytes(*b);
    }
    bits[n..].fill(0);
}

#[inline(always)]
fn and_not_bytes_body(bits: &mut [u64], with: &[u8]) {
    for (a, b) in bits.iter_mut().zip(words(with)) {
        *a &= !u64::from_le_bytes(*b);
    }
}

#[inline(always)]
fn or_body(bits: &mut [u64], with: &[u64]) {
    for (a, b) in bits.iter_mut().zip(with) {
        *a |= b;
    }
}

#[inline(always)]
fn and_body(bits: &mut [u64], with: &[u64]) {
    for (a, b) in bits.iter_mut().zip(with) {
        *a &= b;
    }
}

#[inline(always)]
fn and_not_body(bits: &mut [u64], with: &[u64]) {
    for (a, b) in bits.iter_mut().zip(with) {
        *a &= !b;
    }
}

/// Asks for the first lines of `bytes` to be brought into the cache. Changes nothing else.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8], lines: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64).take(lines) {
        // SAFETY: the address is that of a live byte; a prefetch reads nothing the program can see.
        unsafe {
            std::arch::x86_64::_mm_prefetch(line.as_ptr().cast(), std::arch::x86_64::_MM_HINT_T0)
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, lines);
}

/// Sets bits `start..end`, as far as `bits` has them.
pub(crate) fn set_range(bits: &mut [u64], start: u32, end: u32) {
    let end = (end as usize).min(bits.len() * 64);
    let start = start as usize;
    if start >= end {
        return;
    }
    let (first, last) = (start / 64, (end - 1) / 64);
    let (head, tail) = (u64::MAX << (start % 64), u64::MAX >> (63 - (end - 1) % 64));
    if first == last {
        bits[first] |= head & tail;
        return;
    }
    bits[first] |= head;
    bits[first + 1..last].fill(u64::MAX);
    bits[last] |= tail;
}

/// Appends the numbers of a word's set bits, plus `base`.
#[inline(always)]
pub(crate) fn push_word(mut word: u64, base: u32, out: &mut Vec<u32>) {
    while word != 0 {
        out.push(base + word.trailing_zeros());
        word &= word - 1;
    }
}
