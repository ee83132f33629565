//! In the place of `autograd`: what a task takes with it from the thread that forked it.

pub struct SequenceRange;

impl SequenceRange {
    pub fn reserve() -> SequenceRange {
        SequenceRange
    }

    pub fn take<R>(self, work: impl FnOnce() -> R) -> R {
        work()
    }
}

pub fn grad_enabled() -> bool {
    true
}

pub fn inference_enabled() -> bool {
    false
}

pub struct GradMode;

impl GradMode {
    pub fn new(_: bool) -> GradMode {
        GradMode
    }
}

pub struct InferenceMode;

impl InferenceMode {
    pub fn new(_: bool) -> InferenceMode {
        InferenceMode
    }
}
