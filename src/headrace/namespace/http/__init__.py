"""The NameNode's pages: WebHDFS, /fsck, /jmx. Values of `base.web` in and out, no sockets."""
