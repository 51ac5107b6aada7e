package app

import "runtime/debug"

// version is set by the linker of a release; "" in other builds.
var version string

// Version returns the version of the release or of the module, or of its source if it has none.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "(devel)"
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				v = "(devel " + setting.Value[:min(12, len(setting.Value))] + ")"
			}
		}
	}
	return v
}
