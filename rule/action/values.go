package action

// The values of the actions.

// constant returns a function that always returns value.
func constant(value string) func(Attributes) (string, bool) {
	return func(Attributes) (string, bool) { return value, true }
}

// method returns the method as it was sent; methods are case-sensitive.
func method(a Attributes) (string, bool) { return a.Method(), a.Method() != "" }

// header returns a function that reads the first non-empty value of a header.
func header(name string) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) {
		value, ok := a.Header(name)
		if ok && value == "" {
			return laterValue(a, name)
		}
		return value, ok
	}
}

// laterValue returns the first non-empty value of a header whose first value is empty.
func laterValue(a Attributes, name string) (found string, ok bool) {
	ok = AnyValue(a, name, func(value string) bool {
		found = value
		return value != ""
	})
	return found, ok
}

// query returns a function that reads the first non-empty value of a query parameter.
func query(name string) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) {
		value, ok := a.Query(name)
		return value, ok && value != ""
	}
}

// network returns a function that reads the client's network. The value is in CIDR notation if it
// has more than one address or if always is true.
func network(v4, v6 int, always bool) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) {
		addr := a.RemoteAddress().Unmap().WithZone("")
		bits := v6
		if addr.Is4() {
			bits = v4
		}
		if !addr.IsValid() {
			return "", false
		}
		if bits == addr.BitLen() && !always {
			return addr.String(), true
		}
		prefix, err := addr.Prefix(bits)
		return prefix.String(), err == nil
	}
}
