//! wirepool-lab
