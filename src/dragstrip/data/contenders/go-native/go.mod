module dragstrip.invalid/go-native

go 1.19
