//! The functions of libc behind our own of the same name.
//!
//! In: a name. Out: the next function of that name in the order of loaded libraries. Whatever the recorder does for itself
//! goes through these, or through functions that it does not stand in front of.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// "The next one after this library".
const RTLD_NEXT: *mut c_void = -1_isize as *mut c_void;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
}

/// A place to keep the address of one function.
pub struct Real(AtomicUsize);

impl Real {
    /// Not looked up yet.
    pub const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// The function's address.
    pub fn address(&self, name: &CStr) -> usize {
        let known = self.0.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        // SAFETY: the name ends with a NUL, and dlsym may be called from any thread.
        let found = unsafe { dlsym(RTLD_NEXT, name.as_ptr()) } as usize;
        if found == 0 {
            std::process::abort();
        }
        self.0.store(found, Ordering::Relaxed);
        found
    }
}

/// The real function: `real!(c"fsync", fn(c_int) -> c_int)`.
macro_rules! real {
    ($name:literal, fn($($of:ty),*) -> $out:ty) => {{
        static REAL: $crate::real::Real = $crate::real::Real::new();
        let address = REAL.address($name);
        // SAFETY: the address is that of the libc function of this name, which has this signature.
        unsafe { std::mem::transmute::<usize, unsafe extern "C" fn($($of),*) -> $out>(address) }
    }};
}
pub(crate) use real;

/// Does something and leaves `errno` as it was.
pub fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the address is this thread's own and stays valid.
    let place = unsafe { __errno_location() };
    // SAFETY: as above.
    let errno = unsafe { *place };
    let done = work();
    // SAFETY: as above.
    unsafe { *place = errno };
    done
}
