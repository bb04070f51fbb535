//! What a computation can be asked to report about itself; the unit type reports nothing and costs nothing.

/// Told of the steps whose number the source bounds.
pub(super) trait Observer {
    /// The search went one level down.
    fn recursive_call(&mut self) {}
    /// A send block had to be looked up in the receiver's schedule.
    fn violation(&mut self) {}
}

impl Observer for () {}

/// Counts both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) recursive_calls: u32,
    pub(super) violations: u32,
}

impl Observer for Counts {
    fn recursive_call(&mut self) {
        self.recursive_calls += 1;
    }

    fn violation(&mut self) {
        self.violations += 1;
    }
}
