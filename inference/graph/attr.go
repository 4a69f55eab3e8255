package graph

// Int is the integer attribute of that name, or def where the node has none.
func (n *Node) Int(name string, def int64) int64 {
	if v, ok := n.Attrs[name].(int64); ok {
		return v
	}
	return def
}

// Float is the float attribute of that name, or def where the node has none.
func (n *Node) Float(name string, def float32) float32 {
	if v, ok := n.Attrs[name].(float32); ok {
		return v
	}
	return def
}

// Has says whether the node carries the attribute, of whatever type.
func (n *Node) Has(name string) bool {
	_, ok := n.Attrs[name]
	return ok
}
