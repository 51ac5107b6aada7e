package action

// The values of the actions.

// constant always says the same.
func constant(value string) func(Attributes) (string, bool) {
	return func(Attributes) (string, bool) { return value, true }
}

// method returns the method as it was sent: methods differ by case.
func method(a Attributes) (string, bool) { return a.Method(), a.Method() != "" }

// header returns the first value of a header that is not empty.
func header(name string) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) {
		value, ok := a.Header(name)
		if ok && value == "" {
			return laterValue(a, name)
		}
		return value, ok
	}
}

// laterValue returns the first value that is not empty of a header whose first one is.
func laterValue(a Attributes, name string) (found string, ok bool) {
	ok = AnyValue(a, name, func(value string) bool {
		found = value
		return value != ""
	})
	return found, ok
}

// query returns the value of a query parameter that is there and not empty.
func query(name string) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) {
		value, ok := a.Query(name)
		return value, ok && value != ""
	}
}

// network returns the client's network, as CIDR where it is more than one address or
// always is set.
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
