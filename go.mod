module stint

go 1.26
