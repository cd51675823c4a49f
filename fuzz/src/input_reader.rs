//! Reads several values from the input of a target.

/// Returns zeros and empty slices at the end, so that every input is valid.
pub struct InputReader<'a>(&'a [u8]);

impl<'a> InputReader<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        InputReader(data)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn octet(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or_default()
    }

    pub fn octets(&mut self, count: usize) -> &'a [u8] {
        let (octets, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        octets
    }

    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.octet()) % choices.len()]
    }
}
