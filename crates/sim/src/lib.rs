//! wirepool-sim
