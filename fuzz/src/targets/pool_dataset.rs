//! Datasets, their roots and holds, and pending destroys: a decoded value encodes to the same bytes.

use pool::format::{Dataset, DatasetRoot, Freeing, Hold};

pub fn run(input: &[u8]) {
    if let Ok(dataset) = Dataset::decode(input) {
        assert!(dataset.encode()[..] == *input);
    }
    if let Ok(root) = DatasetRoot::decode(input) {
        assert!(root.encode()[..] == *input);
    }
    if let Ok(freeing) = Freeing::decode(input) {
        assert!(freeing.encode()[..] == *input);
    }
    if let Ok(hold) = Hold::decode(input) {
        assert!(hold.encode()[..] == *input);
    }
}
