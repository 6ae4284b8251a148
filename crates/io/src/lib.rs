//! wirepool-io
