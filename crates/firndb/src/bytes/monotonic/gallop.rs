//! Galloping search over the blocks of a sequence.

/// The last block from `block` on that begins at or below a number. Steps double, because most
/// results are near.
#[inline(always)]
pub(super) fn gallop(mut block: usize, blocks: usize, begins: impl Fn(usize) -> bool) -> usize {
    let mut step = 1;
    while block + step < blocks && begins(block + step) {
        block += step;
        step *= 2;
    }
    while step > 1 {
        step /= 2;
        if block + step < blocks && begins(block + step) {
            block += step;
        }
    }
    block
}
