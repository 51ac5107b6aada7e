package route

import "stint/internal/urlpath"

// Clean returns the one spelling of a path for [Set.Match], where a server takes none
// for another beyond what all do.
func Clean(path string) string { return urlpath.String(path, urlpath.Options{}) }
