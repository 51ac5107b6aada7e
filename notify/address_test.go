package notify

import (
	"net/netip"
	"testing"
)

func TestKindOf(t *testing.T) {
	for text, want := range map[string]string{
		"1.1.1.1": "", "8.8.8.8": "", "172.32.0.1": "", "100.128.0.1": "", "2606:4700::1111": "", "2a00:1450::1": "",
		"::ffff:8.8.8.8": "", "64:ff9b::8.8.8.8": "", "2002:808:808::1": "", "2606:4700::5efe:8.8.8.8": "",
		"10.0.0.1": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private", "100.64.0.1": "private",
		"127.0.0.1": "loopback", "127.255.255.254": "loopback", "0.0.0.0": "local", "169.254.1.1": "link-local",
		"169.254.169.254": "metadata", "168.63.129.16": "metadata", "100.100.100.200": "metadata", "fd00:ec2::254": "metadata",
		"192.0.0.192": "reserved", "198.18.0.1": "reserved", "192.0.2.1": "reserved", "203.0.113.1": "reserved", "255.255.255.255": "reserved", "224.0.0.1": "multicast",
		"::": "reserved", "::1": "loopback", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "fc00::1": "private", "fd12::1": "private", "ff02::1": "multicast",
		"::ffff:10.0.0.1": "private", "::ffff:169.254.169.254": "metadata", "::10.0.0.1": "reserved", "::ffff:0:10.0.0.1": "reserved",
		"64:ff9b::10.0.0.1": "private", "64:ff9b::169.254.169.254": "metadata", "64:ff9b:1::8.8.8.8": "reserved",
		"2002:a00:1::1": "private", "2002:a9fe:a9fe::1": "metadata", "2001::1": "reserved", "2001:db8::1": "reserved", "3fff::1": "reserved", "fec0::1": "reserved",
		"2606:4700::5efe:10.0.0.1": "private", "2606:4700::200:5efe:127.0.0.1": "loopback",
		"::127.0.0.1": "reserved", "::8.8.8.8": "reserved", "64:ff9b:1::10.0.0.1": "reserved", "64:ff9b:0:1::8.8.8.8": "reserved",
		"2001:0:808:808::1": "reserved", "2001:0:a00:1::1": "reserved",

		// The address of IPv4 in an address says nothing about the network around it.
		"fd12::5efe:8.8.8.8": "private", "fd12::200:5efe:8.8.8.8": "private", "fe80::5efe:8.8.8.8": "link-local",
		"fd12::5efe:10.0.0.1": "private", "ff02::5efe:8.8.8.8": "multicast", "fec0::200:5efe:8.8.8.8": "reserved", "::5efe:8.8.8.8": "reserved",
		"2001:0:808:808:0:5efe:808:808": "reserved", "2001:db8::5efe:8.8.8.8": "reserved", "64:ff9b:1::5efe:8.8.8.8": "reserved",
		"2002:808:808::5efe:8.8.8.8": "", "2002:808:808::5efe:10.0.0.1": "private", "2002:a00:1::200:5efe:8.8.8.8": "private",
	} {
		if got := kindOf(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	if kindOf(netip.Addr{}) == "" {
		t.Error("no address is a public one")
	}
}

// An address is allowed by itself or its network, in every form.
func TestAllow(t *testing.T) {
	allow := []netip.Prefix{netip.MustParsePrefix("10.3.0.0/16"), netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("fd12::/16")}
	for text, want := range map[string]bool{
		"10.3.4.5": true, "::ffff:10.3.4.5": true, "127.0.0.1": true, "fd12::7": true,
		"10.4.0.1": false, "127.0.0.2": false, "169.254.169.254": false, "fd13::7": false, "64:ff9b::10.3.4.5": false,
	} {
		if err := checkAddress(netip.MustParseAddr(text), allow); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
