//! The one client that opens URLs that callers gave us.
