module lockpick

go 1.26
