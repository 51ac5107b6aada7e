package hints

// Elastic explains a word that is no member of `elastic`; "" if there is nothing to say.
func Elastic(word string) string {
	switch word {
	case "pool", "of", "borrow", "borrow_from", "rule", "name":
		return "write from: and the name of a rule of this domain"
	case "load":
		return "write from: load"
	case "up_to", "max", "cap", "limit":
		return "write upto: and a percentage, such as 300%"
	case "above", "under", "threshold":
		return "write below: and a percentage, such as 70%"
	}
	return ""
}

// HTTPLimit explains a word that is no member of an element of http.rate_limits.
func HTTPLimit(word string) string {
	switch word {
	case "stage", "disable_key", "apply_on_stream_done":
		return word + " is not in this version; leave it out"
	case "group", "levels", "each", "nested":
		return "write groups: and the actions that tell them, from the outermost in"
	case "limit":
		return "limits stand in the descriptors; actions only describe a request"
	}
	return Elsewhere(word)
}
