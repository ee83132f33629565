//! Who asks for the sizes of arguments in profiles, and when they are recorded.

use rushlight_dispatch::profile::{emit, is_on, records_sizes, start, stop};

#[test]
fn sizes_are_recorded_while_anyone_asks_for_them() {
    emit(true, true);
    assert!(records_sizes());
    let plain = start(false, false);
    assert!(records_sizes(), "a profiler that asks for none takes them from no one");
    emit(false, true);
    assert!(!records_sizes(), "the last who asked has ended");
    emit(true, false);
    assert!(!records_sizes());
    let with_sizes = start(true, false);
    stop(plain);
    assert!(records_sizes());
    stop(with_sizes);
    assert!(!records_sizes() && is_on());
    emit(false, false);
    assert!(!is_on());
    emit(false, false);
    assert!(!is_on(), "an end without a beginning changes nothing");
}
