"""Who does what, as data: rings, buckets, shapes. Executed by `parallel/`, priced by `estimate/`,
drawn by `widgets/`. No torch."""
