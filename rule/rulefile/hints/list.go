package hints

// List returns the hint for a word that is not allowed in an element of exempt or deny.
func List(word string) string {
	switch word {
	case "cidr", "ip", "ips", "address", "addresses", "networks", "remote_address":
		return "write cidrs: and a list, such as [192.0.2.0/24, 2001:db8::/32]"
	case "value":
		return "write values: and a list"
	case "header_name":
		return "write header:"
	case "descriptor_key", "descriptor":
		return "write key:"
	case "file":
		return "write cidrs: {file: NAME} or values: {file: NAME}"
	case "status":
		return "only deny has a status; what is exempt passes"
	}
	return Elsewhere(word)
}
