"""A file system with the manners of Curvine 0.4.1's FUSE mount, as they were measured."""
