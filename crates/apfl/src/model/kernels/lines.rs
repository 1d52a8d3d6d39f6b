//! An allocator that aligns large blocks to cache lines.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system allocator with large blocks aligned to cache lines, so that a vector of sixteen
/// floats lies in one line. Enable it in a program with
///
/// ```
/// #[global_allocator]
/// static MEMORY: apfl::model::CacheLines = apfl::model::CacheLines;
/// ```
///
/// It affects speed, not results.
#[derive(Clone, Copy, Debug)]
pub struct CacheLines;

const LINE: usize = 64;

/// Sizes in bytes of aligned blocks. Smaller blocks are not parameters; larger ones grow faster if
/// the system can move their pages.
const LARGE: std::ops::Range<usize> = 1 << 10..64 << 20;

/// Returns the layout to request from the system, which depends on the size only.
fn on_a_line(layout: Layout) -> Layout {
    if LARGE.contains(&layout.size()) {
        layout.align_to(LINE).unwrap_or(layout)
    } else {
        layout
    }
}

// SAFETY: every block is the system's, allocated and freed with the same layout, which depends on
// the block's layout only; its alignment is at least the requested one.
unsafe impl GlobalAlloc for CacheLines {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises; a size of zero stays one.
        unsafe { System.alloc(on_a_line(layout)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the same.
        unsafe { System.alloc_zeroed(on_a_line(layout)) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `alloc` with this layout.
        unsafe { System.dealloc(block, on_a_line(layout)) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size, rounded up to the alignment, is one.
        let requested = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let (old, new) = (on_a_line(layout), on_a_line(requested));
        // SAFETY: the block has the layout `old`; a new one is written for as much as both hold.
        unsafe {
            if old.align() == new.align() {
                return System.realloc(block, old, size);
            }
            let moved = System.alloc(new);
            if !moved.is_null() {
                block.copy_to_nonoverlapping(moved, size.min(layout.size()));
                System.dealloc(block, old);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_start_on_a_line_and_keep_their_bytes_as_they_grow_and_shrink() {
        let layout = |size| Layout::from_size_align(size, 4).unwrap();
        let sizes = [100, 1 << 12, 1 << 13, 65 << 20, 1 << 20, 10];
        // SAFETY: each block is used as its layout says and given back with the last of them.
        unsafe {
            let mut block = CacheLines.alloc_zeroed(layout(sizes[0]));
            (0..10).for_each(|k| *block.add(k) = k as u8);
            for pair in sizes.windows(2) {
                block = CacheLines.realloc(block, layout(pair[0]), pair[1]);
                if LARGE.contains(&pair[1]) {
                    assert_eq!(block as usize % LINE, 0, "{pair:?}");
                }
                (0..10).for_each(|k| assert_eq!(*block.add(k), k as u8, "{pair:?}"));
            }
            CacheLines.dealloc(block, layout(10));
        }
    }
}
