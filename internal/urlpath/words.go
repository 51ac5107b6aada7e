package urlpath

// Word is an option with its name in rule files and settings.
type Word struct {
	Name string
	Set  func(*Options)
}

// Words are all options.
var Words = []Word{
	{"case", func(o *Options) { o.Case = true }},
	{"trailing_slash", func(o *Options) { o.TrailingSlash = true }},
	{"escaped_slash", func(o *Options) { o.EscapedSlash = true }},
	{"backslash", func(o *Options) { o.Backslash = true }},
	{"escapes", func(o *Options) { o.Escapes = true }},
	{"parameters", func(o *Options) { o.Parameters = true }},
	{"endings", func(o *Options) { o.Endings = true }},
	{"dots_first", func(o *Options) { o.DotsFirst = true }},
}
