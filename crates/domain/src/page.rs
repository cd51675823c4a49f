//! Pagination of lists.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    size: u32,
    number: u32,
}

impl PageRequest {
    pub const DEFAULT_SIZE: u32 = 10;
    pub const MAX_SIZE: u32 = 100;

    /// Returns `None` if the size is not 1 to 100, or the page number is not 1 to 2^31 - 1.
    pub fn new(size: u32, number: u32) -> Option<Self> {
        let in_range = (1..=Self::MAX_SIZE).contains(&size) && (1..=i32::MAX.unsigned_abs()).contains(&number);
        in_range.then_some(PageRequest { size, number })
    }

    pub fn size(self) -> u32 {
        self.size
    }

    pub fn number(self) -> u32 {
        self.number
    }

    /// Number of items before this page.
    pub fn offset(self) -> u64 {
        u64::from(self.number - 1) * u64::from(self.size)
    }
}

impl Default for PageRequest {
    fn default() -> Self {
        PageRequest { size: Self::DEFAULT_SIZE, number: 1 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub request: PageRequest,
    pub total_items: u64,
}

impl<T> Page<T> {
    pub fn total_pages(&self) -> u64 {
        self.total_items.div_ceil(u64::from(self.request.size))
    }

    /// Returns a page of a list that is in memory.
    pub fn of_list(items: &[T], request: PageRequest) -> Self
    where
        T: Clone,
    {
        let size = usize::try_from(request.size).unwrap_or(usize::MAX);
        let offset = usize::try_from(request.offset()).unwrap_or(usize::MAX);
        let shown = items.iter().skip(offset).take(size).cloned().collect();
        Page { items: shown, request, total_items: items.len() as u64 }
    }

    pub fn map<U>(self, convert: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(convert).collect(),
            request: self.request,
            total_items: self.total_items,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_and_number_are_limited() {
        for (size, number, is_valid) in [
            (1, 1, true),
            (100, i32::MAX.unsigned_abs(), true),
            (0, 1, false),
            (101, 1, false),
            (1, 0, false),
            (1, 1 << 31, false),
        ] {
            assert_eq!(PageRequest::new(size, number).is_some(), is_valid, "{size} {number}");
        }
    }

    #[test]
    fn total_pages_include_a_partial_page() {
        let request = PageRequest::new(10, 3).unwrap();
        assert_eq!(request.offset(), 20);
        for (items, pages) in [(0, 0), (1, 1), (10, 1), (11, 2)] {
            assert_eq!(Page::<()> { items: vec![], request, total_items: items }.total_pages(), pages);
        }
    }
}
