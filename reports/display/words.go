// Package words is how every report writes a text from a history, an instant, a span
// of time, a count and a list, so that all say the same thing the same way.
//
// Visible is for texts that anybody may have written: it shows what a reader could not
// see. Clip and Fit cut a text, to bytes for a file's sake and to characters for a
// picture's. Times are nanoseconds of true time, as in a history.
//
// Deliberately missing: what one form of output asks for, such as the escapes of
// Markdown and XML and the columns of a terminal. Their packages have them, on top of
// this one or in its stead.
package display
