// Boost.JSON is compiled here, once: Debian's package of its headers comes without the library.
#include <boost/json/src.hpp>
