package rule

// lint looks for what a file says but can hardly mean.
func (f *fileCompiler) lint() {}
