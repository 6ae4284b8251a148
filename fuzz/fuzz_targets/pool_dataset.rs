#![no_main]
//! Datasets and their roots: whatever decodes encodes to the same bytes.

use libfuzzer_sys::fuzz_target;
use pool::format::{Dataset, DatasetRoot};

fuzz_target!(|input: &[u8]| {
    if let Ok(dataset) = Dataset::decode(input) {
        assert!(dataset.encode()[..] == *input);
    }
    if let Ok(root) = DatasetRoot::decode(input) {
        assert!(root.encode()[..] == *input);
    }
});
