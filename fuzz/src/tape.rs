//! The input of a target that needs more than one value, read from its front.

/// At its end it gives zeros and nothing, so that every input is a whole one.
pub struct Tape<'a>(&'a [u8]);

impl<'a> Tape<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Tape(data)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn octet(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or_default()
    }

    pub fn octets(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.octet()) % choices.len()]
    }
}
