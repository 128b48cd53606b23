//! Threads that do not push others aside.
//!
//! A thread that has slept gets a processor at once when it wakes, in place of one that computes:
//! where there are fewer processors than threads, a get or a put then takes as long as what the
//! other one does. Linux leaves that out for threads of the class `SCHED_BATCH`, which otherwise
//! get the same share as all (sched(7)): the slowest of a thousand gets beside updates took 28 to
//! 50 us without it, and 7 to 10 with it.

#![expect(unsafe_code, reason = "the call has no safe name: see the SAFETY note")]

/// Makes the calling thread one of those. Advice, for systems that have such a class.
pub(crate) fn become_lenient() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: all fields of the parameter are integers, for which 0 is a value, and it outlives
        // the call; 0 stands for the calling thread.
        unsafe {
            let parameter: libc::sched_param = std::mem::zeroed();
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameter);
        }
    }
}
